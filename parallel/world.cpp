#include "parallel/world.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <unistd.h>

#include "framework/error.h"
#include "framework/gpu.h"
#include "parallel/nccl/nccl.h"
#include "parallel/processes.h"
#include "parallel/threads_transport.h"

namespace heddle {

namespace {

[[noreturn]] void raise(int rank, const Failure& failure) {
  switch (failure.kind) {
    case Failure::Kind::out_of_memory:
      throw OutOfMemory(failure.why);
    case Failure::Kind::input_error:
      throw InputError(failure.why);
    case Failure::Kind::rank_failed:
    case Failure::Kind::leader_late:
      throw RankFailed(failure.why);
    case Failure::Kind::error:
      break;
  }
  fail<RankFailed>("rank {} failed: {}", rank, failure.why);
}

/// This machine's cores a rank; 0 if there are more ranks. A process that its launcher has bound to some has them for
/// itself.
int cores_of_a_rank(const WorldOptions& options) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (options.processes == nullptr) return cores / options.mesh.size();
  return cores < static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) ? cores : cores / options.processes->local_size();
}

double steady_seconds() {
  return std::chrono::duration<double>(RankClock::Steady::now().time_since_epoch()).count();
}

RankClock make_clock(const WorldOptions& options, int rank, const Device& device, RankClock::Steady::time_point epoch) {
  const ClockOptions& clock = options.clock;
  if (!clock.is_virtual) {
    // With a core for every thread the time is the CPU time, and takes a twentieth of the time to read: of a small
    // collective that is the half.
    if (cores_of_a_rank(options) >= threads_per_rank(options)) return RankClock(epoch, steady_seconds);
    return RankClock(epoch);
  }
  ClockModel model{.links = clock.links, .jitter = clock.jitter, .key = options.key};
  if (const auto index = static_cast<std::size_t>(rank); index < clock.speeds.size()) model.speed = clock.speeds[index];
  if (clock.computed) return {rank, model, [&clock, &device] { return clock.computed(device); }};
  if (!device.has_data()) return {rank, model, [&device] { return device.backend().seconds(); }};
  return {rank, model};
}

/// What the ranks of this process have in common.
struct Process {
  RankClock::Steady::time_point epoch = RankClock::Steady::now();
  std::shared_ptr<ComputingTurn> turn{};  // null: all compute at once
};

/// However a rank ends, it gives up its turn.
class Retirement {
 public:
  explicit Retirement(RankClock& clock) : clock_(clock) {}
  ~Retirement() { clock_.retire(); }
  Retirement(const Retirement&) = delete;
  Retirement& operator=(const Retirement&) = delete;

 private:
  RankClock& clock_;
};

/// The life of one rank, on its own thread.
void run_rank(const WorldOptions& options, const std::function<void(Rank&)>& body, Device& device,
              std::unique_ptr<Transport> transport, const Process& process) {
  if (process.turn) process.turn->stay_on_core();
  device.backend().enter_thread();
  const auto traffic = std::make_shared<RankTraffic>(
      make_clock(options, transport->world_rank(transport->rank()), device, process.epoch));
  const Retirement retirement(traffic->clock);
  if (process.turn) traffic->clock.take_turns(process.turn);
  const auto bytes = std::make_shared<ByteCounter>();
  traffic->hooks.push_back(bytes);
  Communicator world(std::move(transport), device, traffic);
  const int index = world.rank();
  MeshGroups groups(world, options.mesh);
  Rank rank{.index = index,
            .size = world.size(),
            .device = device,
            .world = world,
            .groups = groups,
            .mesh = options.mesh,
            .coordinates = options.mesh.coordinates(index),
            .key = options.key,
            .bytes = *bytes,
            .clock = traffic->clock};
  body(rank);
  device.backend().synchronize();  // what a GPU found wrong at the very end is told before the rank counts as done
}

/// By NCCL, ranks of one machine have its GPUs in their order; a launcher may also show each process its own only.
int gpu_of_process(const WorldOptions& options) {
  if (options.transport != "nccl" || options.backend != "cuda") return 0;
  const Processes& processes = *options.processes;
  const int gpus = cuda_gpus();
  const bool has_own = gpus == 1 && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  if (gpus > 0 && processes.local_rank() >= gpus && !has_own)
    fail<InputError>(
        "transport nccl: each rank needs a GPU of its own, and this machine has {} of the job's ranks and {} GPU{} "
        "(several ranks on one GPU: transport threads)",
        processes.local_size(), gpus, gpus == 1 ? "" : "s");
  return has_own ? 0 : processes.local_rank();
}

std::unique_ptr<Device> make_device(const WorldOptions& options, int rank) {
  return std::make_unique<Device>(make_backend(options.backend, {.threads = threads_per_rank(options),
                                                                 .winograd = options.winograd,
                                                                 .tf32 = options.tf32,
                                                                 .gpu = gpu_of_process(options),
                                                                 .planned = options.planned,
                                                                 .profile = options.profile}),
                                  rank, options.memory_budget);
}

/// Of a process's rank. Without data nothing moves, on whatever device.
std::unique_ptr<Transport> connect(const WorldOptions& options, const Device& device) {
  Processes& processes = *options.processes;
  const int ranks = options.mesh.size();
  if (options.transport != "nccl" || !device.has_data()) return processes.connect(ranks, options.timeout);
  return processes.connect(ranks, options.timeout, options.nccl != nullptr ? *options.nccl : open_nccl(), device);
}

void run_threads(const WorldOptions& options, const std::function<void(Rank&)>& body) {
  const int ranks = options.mesh.size();
  // Tensors may be on their way when a rank fails: the world that holds them goes before the devices.
  std::vector<std::unique_ptr<Device>> devices;
  for (int r = 0; r < ranks; ++r) devices.push_back(make_device(options, r));
  Process process;
  const bool in_turns = options.clock.is_virtual && !options.clock.computed && devices.front()->has_data();
  if (in_turns) process.turn = std::make_shared<ComputingTurn>();
  ThreadsWorld world(ranks, in_turns ? options.timeout * ranks : options.timeout);
  std::vector<std::optional<Failure>> failures(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    const auto fails = [&](int r) {
      std::optional<Failure>& failure = failures[static_cast<std::size_t>(r)];
      failure = failure_of(std::current_exception());
      if (failure) world.failed(r, failure->why);
    };
    const auto live = [&](int r) {
      try {
        run_rank(options, body, *devices[static_cast<std::size_t>(r)], world.connect(r), process);
        world.ended(r);
      } catch (...) {
        fails(r);
      }
      world.returned(r);
    };
    for (int r = 0; r < ranks; ++r) {
      try {
        threads.emplace_back(live, r);
      } catch (...) {
        // The system gives no more threads: those that run must not wait for one that never will.
        fails(r);
        break;
      }
    }
    world.await(static_cast<int>(threads.size()), options.patience, options.on_stall);
  }
  for (int r = 0; r < ranks; ++r)
    if (const auto& failure = failures[static_cast<std::size_t>(r)]) raise(r, *failure);
}

/// This process's rank, if the mesh has it: those beyond the mesh only learn how it ended.
void run_process(const WorldOptions& options, const std::function<void(Rank&)>& body) {
  Processes& processes = *options.processes;
  const int ranks = options.mesh.size();
  if (ranks > processes.size())
    fail<InputError>("mesh: {} has {} ranks, but the job has {} process{}: start it with mpirun -n {}",
                     to_string(options.mesh), ranks, processes.size(), processes.size() == 1 ? "" : "es", ranks);
  std::unique_ptr<Device> device;
  std::exception_ptr exception;
  try {
    if (processes.rank() < ranks) {
      device = make_device(options, processes.rank());
      run_rank(options, body, *device, connect(options, *device), Process());
    }
  } catch (...) {
    exception = std::current_exception();
  }
  // Elements may be on their way when a rank fails: the device stays until they have arrived, and where that is not to
  // be known, as long as this process.
  const auto failed = processes.conclude(exception);
  if (processes.is_broken()) (void)device.release();
  if (failed) raise(failed->first, failed->second);
}

}  // namespace

int threads_per_rank(const WorldOptions& options) {
  if (options.threads > 0) return options.threads;
  if (options.clock.is_virtual) return 1;
  return std::max(1, cores_of_a_rank(options));
}

void find_device(const WorldOptions& options) {
  (void)make_device(options, 0);
  if (options.transport == "nccl" && options.nccl == nullptr) (void)open_nccl();
}

void run_ranks(const WorldOptions& options, const std::function<void(Rank&)>& body) {
  const std::string& transport = options.transport;
  if (transport == "threads") return run_threads(options, body);
  if (transport != "mpi" && transport != "nccl")
    fail<InputError>("transport: expected threads, mpi or nccl, got {}", transport);
  if (options.processes == nullptr)
    fail<InputError>("transport: {} needs one process a rank: start it with mpirun -n {}", transport,
                     options.mesh.size());
  if (transport == "nccl" && options.nccl == nullptr && options.backend == "cpu")
    fail<InputError>("transport: nccl moves what GPUs hold: expected device cuda, got cpu");
  run_process(options, body);
}

}  // namespace heddle
