#include "parallel/world.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/ranges.h>
#include <unistd.h>

#include "framework/backends/gpu.h"
#include "framework/error.h"
#include "parallel/communicator/core_binding.h"
#include "parallel/transports/failure.h"
#include "parallel/transports/processes/job.h"
#include "parallel/transports/threads/threads_transport.h"

namespace heddle {

namespace {

/// An error of no special kind becomes the failure of its rank.
[[noreturn]] void raise_rank_failure(int rank, const Failure& failure) {
  if (failure.kind == Failure::Kind::error) fail<RankFailed>("rank {} failed: {}", rank, failure.why);
  raise(failure);
}

/// The cores of this machine per rank; 0 if there are more ranks than cores. A process that its launcher has bound to
/// some cores has them for itself.
int cores_of_a_rank(const WorldOptions& options) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (options.job == nullptr) return cores / options.mesh.size();
  return cores < static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) ? cores : cores / options.job->local_size();
}

RankClock make_clock(const WorldOptions& options, int rank, const Device& device, RankClock::Steady::time_point epoch) {
  const ClockOptions& clock = options.clock;
  if (!clock.is_virtual) {
    // With a core for every thread, steady time equals CPU time and takes a twentieth of the time to read, which would
    // be half of a small collective.
    if (cores_of_a_rank(options) >= threads_per_rank(options)) return RankClock(epoch, steady_seconds);
    return RankClock(epoch);
  }
  ClockModel model{.links = clock.links, .jitter = clock.jitter, .key = options.key};
  if (const auto index = static_cast<std::size_t>(rank); index < clock.speeds.size()) model.speed = clock.speeds[index];
  if (clock.computed) return {rank, model, [&clock, &device] { return clock.computed(device); }};
  if (!device.has_data()) return {rank, model, [&device] { return device.backend().seconds(); }};
  return {rank, model};
}

/// The state that the ranks of this process share.
struct Process {
  RankClock::Steady::time_point epoch = RankClock::Steady::now();
  std::shared_ptr<CoreLock> core{};  // null: all compute at once
};

/// However a rank ends, it releases the core lock.
class RetiresAtEnd {
 public:
  explicit RetiresAtEnd(RankClock& clock) : clock_(clock) {}
  ~RetiresAtEnd() { clock_.retire(); }
  RetiresAtEnd(const RetiresAtEnd&) = delete;
  RetiresAtEnd& operator=(const RetiresAtEnd&) = delete;

 private:
  RankClock& clock_;
};

/// The life of one rank, on its own thread.
void run_rank(const WorldOptions& options, const std::function<void(Rank&)>& body, Device& device,
              std::unique_ptr<Transport> transport, const Process& process) {
  if (process.core) process.core->pin_thread();
  device.backend().enter_thread();
  const auto traffic = std::make_shared<RankTraffic>(
      make_clock(options, transport->world_rank(transport->rank()), device, process.epoch));
  const RetiresAtEnd retirement(traffic->clock);
  if (process.core) traffic->clock.compute_under(process.core);
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
  device.backend().synchronize();  // errors of a GPU at the very end are reported before the rank counts as done
}

/// Where each rank needs a GPU of its own, the ranks of one machine take its GPUs in their order. A launcher may also
/// show each process only the GPU that it is to use.
int gpu_of_process(const WorldOptions& options) {
  if (!transport_type(options.transport).needs_own_gpu || options.backend != "cuda") return 0;
  const Job& job = *options.job;
  const int gpus = cuda_gpus();
  const bool has_own = gpus == 1 && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  if (gpus > 0 && job.local_rank() >= gpus && !has_own)
    fail<InputError>(
        "transport {}: each rank needs a GPU of its own, and this machine has {} of the job's ranks and {} GPU{} "
        "(several ranks on one GPU: transport threads)",
        options.transport, job.local_size(), gpus, gpus == 1 ? "" : "s");
  return has_own ? 0 : job.local_rank();
}

std::unique_ptr<Device> make_device(const WorldOptions& options, int rank) {
  BackendOptions own = options.backend_options;
  own.threads = threads_per_rank(options);
  if (!own.gpu) own.gpu = gpu_of_process(options);
  const auto budget =
      options.rank_budgets.empty() ? options.memory_budget : options.rank_budgets.at(static_cast<std::size_t>(rank));
  return std::make_unique<Device>(make_backend(options.backend, own), rank, budget);
}

/// Where the device holds no data nothing moves, and no library is opened.
std::unique_ptr<Transport> connect(const WorldOptions& options, const Device& device) {
  Job& job = *options.job;
  const int ranks = options.mesh.size();
  const auto element_path = transport_type(options.transport).element_path;
  if (element_path == nullptr || !device.has_data()) return job.connect(ranks, options.timeout);
  return job.connect(ranks, options.timeout, options.element_path ? options.element_path : element_path(), device);
}

/// Starts the thread of a rank; OutOfMemory if the system gives none.
void start(std::vector<std::jthread>& threads, const std::function<void(int)>& body, int rank) {
  try {
    threads.emplace_back(body, rank);
  } catch (const std::system_error& error) {
    fail<OutOfMemory>(
        "rank {}: out of memory: the system cannot start a thread for it, perhaps because of a limit (ulimit -v, "
        "ulimit -u): {}",
        rank, error.what());
  }
}

/// Ranks without data compute little between two waits for each other, and wake each other faster on one core. Of more
/// ranks than this, enough compute at the same time to pay for several cores.
constexpr int max_planned_ranks_on_one_core = 32;

void run_threads(const WorldOptions& options, const std::function<void(Rank&)>& body) {
  const int ranks = options.mesh.size();
  // Tensors may be under way when a rank fails: the world that holds them is destroyed before the devices.
  std::vector<std::unique_ptr<Device>> devices;
  for (int r = 0; r < ranks; ++r) devices.push_back(make_device(options, r));
  Process process;
  const bool one_computes = options.clock.is_virtual && !options.clock.computed && devices.front()->has_data();
  if (one_computes) process.core = std::make_shared<CoreLock>();
  std::optional<OnOneCore> on_one_core;  // which the threads of the ranks inherit
  const bool is_planned = !devices.front()->has_data();
  if (is_planned && ranks > 1 && ranks >= usable_cores() && ranks <= max_planned_ranks_on_one_core)
    on_one_core.emplace();
  ThreadsWorld world(ranks, one_computes ? options.timeout * ranks : options.timeout);
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
        start(threads, live, r);
      } catch (...) {
        // The running ranks must not wait for one that never runs.
        fails(r);
        break;
      }
    }
    world.await(static_cast<int>(threads.size()), options.patience, options.on_stall);
  }
  for (int r = 0; r < ranks; ++r)
    if (const auto& failure = failures[static_cast<std::size_t>(r)]) raise_rank_failure(r, *failure);
}

/// Keeps a device as long as this process: elements may still arrive in its memory.
void keep(std::unique_ptr<Device> device) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<Device>>;  // never destroyed
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(device));
}

/// Runs this process's rank, if the mesh has it; processes beyond the mesh only take part in the end.
void run_process(const WorldOptions& options, const std::function<void(Rank&)>& body) {
  Job& job = *options.job;
  const int ranks = options.mesh.size();
  if (ranks > job.size())
    fail<InputError>("mesh: {} has {} ranks, but the job has {} process{}: start it with mpirun -n {}",
                     to_string(options.mesh), ranks, job.size(), job.size() == 1 ? "" : "es", ranks);
  std::unique_ptr<Device> device;
  std::exception_ptr exception;
  try {
    if (job.rank() < ranks) {
      device = make_device(options, job.rank());
      run_rank(options, body, *device, connect(options, *device), Process());
    }
  } catch (...) {
    exception = std::current_exception();
  }
  // Elements may be under way when a rank fails: the device stays until they have arrived, and where that cannot be
  // known, as long as this process.
  const auto failed = job.conclude(exception);
  if (job.is_broken()) keep(std::move(device));
  if (failed) raise_rank_failure(failed->first, failed->second);
}

}  // namespace

int threads_per_rank(const WorldOptions& options) {
  if (options.backend_options.threads) return *options.backend_options.threads;
  if (options.clock.is_virtual) return 1;
  return std::max(1, cores_of_a_rank(options));
}

void check_available(const WorldOptions& options) {
  (void)make_device(options, 0);
  const auto element_path = transport_type(options.transport).element_path;
  if (element_path != nullptr && !options.element_path) (void)element_path();
}

void run_ranks(const WorldOptions& options, const std::function<void(Rank&)>& body) {
  const TransportType& transport = transport_type(options.transport);
  if (transport.needs_job && options.job == nullptr)
    fail<InputError>("transport {}: it needs one process per rank: start it with mpirun -n {}", transport.name,
                     options.mesh.size());
  if (!options.element_path && !transport.moves_memory_of(options.backend))
    fail<InputError>("transport {}: expected device {}, got {}: {}", transport.name,
                     fmt::join(transport.devices, " or "), options.backend, transport.restriction);
  if (transport.needs_job)
    run_process(options, body);
  else
    run_threads(options, body);
}

}  // namespace heddle
