// Collectives among ranks of one thread each: threads of this process, or the processes of the job that it was started
// in (mpirun -n 2 ./heddle bench collectives), beside MPI's own collectives as the peer. The size n of a row is that of
// the whole tensor: the input of a reduction, all that a rank holds in an all_to_all, the output of a gather, the input
// of a scatter, or the content of a message. Latency is the time of a call, and bandwidth is n over that time. Its
// limit is a plain memory copy in the same run: the bytes per second that one rank copies between tensors far larger
// than the caches. (In place, an all_reduce of two ranks reads 2 n and writes 2 n; a copy reads n and writes n.)
#include <algorithm>
#include <chrono>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "experiments/program/bench/bench.h"
#include "framework/tensors/device.h"
#include "parallel/communicator/shard.h"
#include "parallel/transports/processes/job.h"
#include "parallel/transports/transports.h"
#include "parallel/world.h"

namespace heddle {

namespace {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;

struct Collective {
  const char* name;
  /// One call on every rank; `x` is the whole tensor.
  void (*call)(Communicator& world, Tensor& x);
  /// The same call of the MPI library; `split`: it has none.
  Operation peer = Operation::split;
};

Tensor own_part(const Communicator& world, const Tensor& x, int rank) {
  const IndexRange part = shard(x.shape()[0], world.size(), rank);
  return x.rows(part.begin, part.end());
}

std::vector<Tensor> parts(const Communicator& world, const Tensor& x) {
  std::vector<Tensor> all;
  for (int p = 0; p < world.size(); ++p) all.push_back(own_part(world, x, p));
  return all;
}

constexpr Collective collectives[]{
    {"all_reduce in place", [](Communicator& world, Tensor& x) { world.all_reduce_in_place(x).wait(); },
     Operation::all_reduce},
    {"all_reduce", [](Communicator& world, Tensor& x) { world.all_reduce(x).wait(); }, Operation::all_reduce},
    {"reduce", [](Communicator& world, Tensor& x) { world.reduce(x, 0).wait(); }, Operation::reduce},
    {"reduce_scatter", [](Communicator& world, Tensor& x) { world.reduce_scatter(x).wait(); },
     Operation::reduce_scatter},
    {"all_gather", [](Communicator& world, Tensor& x) { world.all_gather(own_part(world, x, world.rank())).wait(); },
     Operation::all_gather},
    {"all_to_all", [](Communicator& world, Tensor& x) { world.all_to_all(parts(world, x)).wait(); },
     Operation::all_to_all},
    {"broadcast", [](Communicator& world, Tensor& x) { world.broadcast(x, 0).wait(); }, Operation::broadcast},
    {"gather", [](Communicator& world, Tensor& x) { world.gather(own_part(world, x, world.rank()), 0).wait(); },
     Operation::gather},
    {"scatter", [](Communicator& world, Tensor& x) { world.scatter(parts(world, x), 0).wait(); }, Operation::scatter},
    {"send and recv",
     [](Communicator& world, Tensor& x) {
       if (world.rank() == 0 && world.size() > 1) world.send(x, 1).wait();
       if (world.rank() == 1) world.recv(0).wait();
     },
     Operation::send},
    {"exchange in a ring",
     [](Communicator& world, Tensor& x) {
       const int size = world.size();
       if (size == 1) return;
       world.exchange(x, (world.rank() + 1) % size, (world.rank() + size - 1) % size).wait();
     }},
};

/// Seconds of one call: the shortest of several rounds of `calls` calls between barriers. Every round has different
/// values, because memory is faster if the same value, or zero, was there before.
template <class Call>
double seconds_of_call(Communicator& world, Tensor& x, int calls, int rounds, const Call& call) {
  using Clock = std::chrono::steady_clock;
  double shortest = 1e300;
  for (int round = 0; round <= rounds; ++round) {
    x.fill(1 + round + world.rank());
    world.barrier().wait();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    world.barrier().wait();
    // The first round is a warm-up.
    if (round > 0) shortest = std::min(shortest, std::chrono::duration<double>(Clock::now() - start).count() / calls);
  }
  return shortest;
}

class CollectivesBench {
 public:
  explicit CollectivesBench(const BenchSettings& settings) : settings_(settings), rows_(settings) {}

  std::vector<BenchRow> run() {
    WorldOptions options;
    options.mesh = Mesh(std::max(2, settings_.threads));
    if (settings_.job != nullptr) {
      options.mesh = Mesh(settings_.job->size());
      options.transport = transport_of_jobs(options.backend).name;
      options.job = settings_.job;
    }
    options.backend_options.threads = 1;
    transport_ = fmt::format("{} x {}: ", options.transport, options.mesh.size());
    run_ranks(options, [&](Rank& rank) {
      copies(rank);
      latencies(rank);
      for (const std::int64_t bytes : {mib, 64 * mib})
        for (const Collective& collective : collectives) bandwidth(rank, collective, bytes);
      bandwidth(rank, collectives[0], 512 * mib);
    });
    return rows_.take();
  }

 private:
  /// Rank 0 reports what all ranks measure.
  void add(const Rank& rank, BenchRow row) {
    if (rank.index == 0) rows_.add(std::move(row));
  }

  /// Plain copies of a tensor: by one rank alone, and by all ranks at once, each of its own tensor.
  void copies(Rank& rank) {
    constexpr std::int64_t bytes = 512 * mib;
    Tensor x = Tensor::empty(rank.device, {bytes / 4}, DType::f32);
    Tensor y = Tensor::empty_like(x);
    const auto rate = [&](int copying) {
      return copying * static_cast<double>(bytes) / seconds_of_call(rank.world, x, 1, 5, [&] {
               if (rank.index < copying) y.copy_from(x);
             });
    };
    const double alone = rate(1);
    if (rank.index == 0) copy_rate_ = alone;
    add(rank, {.name = "memory copy by one rank", .value = alone * 1e-9, .unit = "GB/s"});
    const double together = rate(rank.size);
    add(rank, {.name = "memory copies by all ranks together", .value = together * 1e-9, .unit = "GB/s"});
  }

  void latencies(Rank& rank) {
    Communicator& world = rank.world;
    Tensor x = Tensor::empty(rank.device, {4 * kib / 4}, DType::f32);
    constexpr int calls = 200;
    constexpr int rounds = 25;
    const auto latency = [&](const std::string& name, const Collective& collective) {
      BenchRow row{.name = transport_ + name, .unit = "us"};
      row.value = 1e6 * seconds_of_call(world, x, calls, rounds, [&] { collective.call(world, x); });
      if (const auto seconds = seconds_of_peer(rank, collective, x, calls, rounds)) row.peer = 1e6 * *seconds;
      add(rank, std::move(row));
    };
    latency("barrier", {"barrier", [](Communicator& all, Tensor&) { all.barrier().wait(); }, Operation::barrier});
    for (const Collective& collective : collectives) latency(fmt::format("{}, 4 KiB", collective.name), collective);
  }

  void bandwidth(Rank& rank, const Collective& collective, std::int64_t bytes) {
    Tensor x = Tensor::empty(rank.device, {bytes / 4}, DType::f32);
    const int calls = bytes == mib ? 20 : 1;
    const int rounds = bytes > 64 * mib ? 5 : 12;
    const auto rate = [bytes](double seconds) { return static_cast<double>(bytes) / seconds * 1e-9; };
    BenchRow row{.name = fmt::format("{}{}, {} MiB", transport_, collective.name, bytes / mib), .unit = "GB/s"};
    row.value = rate(seconds_of_call(rank.world, x, calls, rounds, [&] { collective.call(rank.world, x); }));
    row.limit = copy_rate_ * 1e-9;
    if (const auto seconds = seconds_of_peer(rank, collective, x, calls, rounds)) row.peer = rate(*seconds);
    add(rank, std::move(row));
  }

  /// The MPI library's own call, whose result goes into memory that was allocated before.
  std::optional<double> seconds_of_peer(Rank& rank, const Collective& collective, Tensor& x, int calls, int rounds) {
    if (settings_.job == nullptr || collective.peer == Operation::split) return {};
    const bool in_place = &collective == collectives;
    const Tensor y = in_place ? x : Tensor::empty_like(x);
    const auto values = [](const Tensor& t) { return std::span(t.as<float>(), static_cast<std::size_t>(t.numel())); };
    return seconds_of_call(rank.world, x, calls, rounds,
                           [&] { settings_.job->native_collective(collective.peer, values(x), values(y)); });
  }

  const BenchSettings& settings_;
  std::string transport_;
  double copy_rate_ = 0;
  BenchRows rows_;
};

}  // namespace

std::vector<BenchRow> bench_collectives(const BenchSettings& settings) {
  return CollectivesBench(settings).run();
}

}  // namespace heddle
