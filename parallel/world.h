// Runs one function on every rank of a mesh, each rank in a thread or process with a device of its own, and turns their
// failures into one error.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "parallel/rank.h"
#include "parallel/transports/transports.h"

namespace heddle {

class Job;

/// The clocks of the ranks.
struct ClockOptions {
  bool is_virtual = false;
  // The other members are for virtual clocks.
  LinkModel links{};
  /// The speed of each rank, in rank order, relative to the machine; missing ones are 1.
  std::vector<double> speeds{};
  double jitter = 0;
  /// Seconds that a rank has computed so far. If empty, they are the CPU time of its thread, and on plan what the
  /// backend counts. With CPU time, one rank of a process computes at a time.
  std::function<double(const Device&)> computed{};
};

struct WorldOptions {
  Mesh mesh{};
  std::string backend = "cpu";
  /// The options of every rank's backend. If they leave out `threads`, a rank has its share of the cores, or with a
  /// virtual clock one, because it sees no other threads. If they leave out `gpu`, it is the rank's own where the
  /// transport needs that, else the first.
  BackendOptions backend_options{};
  /// The name of a row of `transport_types()`.
  std::string transport = "threads";
  /// The job whose processes have the ranks, one each; for transports that need a job.
  Job* job = nullptr;
  /// How elements move between the processes of a job; if empty, as the transport moves them. A path that is given here
  /// may move the memory of any device.
  MakeElementPath element_path{};
  RandomKey key{};
  /// The largest number of bytes that a rank may hold.
  std::optional<std::int64_t> memory_budget{};
  /// One for each rank, in place of memory_budget; if empty, all have that.
  std::vector<std::optional<std::int64_t>> rank_budgets{};
  ClockOptions clock{};
  /// How long a wait may take before it fails and names the peer that did not respond; multiplied by the number of
  /// ranks where one computes at a time. Time in which the peer itself waits for others does not count, so that the
  /// rank is named that all of them wait for.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Called once, by the thread of run_ranks, when a rank has failed and another has not ended `patience` later: a
  /// thread that computes forever cannot be ended, only the program can. run_ranks keeps waiting.
  std::function<void(const std::string& why)> on_stall{};
  std::chrono::milliseconds patience = std::chrono::minutes(1);
};

/// The number of computing threads of each rank; a process of a job has its share of its machine's cores, at least one.
int threads_per_rank(const WorldOptions& options);

/// InputError if this process has no device for its rank, or the library of the transport is not there.
void check_available(const WorldOptions& options);

/// Returns when the body has returned on all ranks. If it throws on one, the waits of the others end, and one error is
/// thrown: OutOfMemory, InputError and what communicators throw (RankFailed) as they are, anything else as RankFailed
/// `rank 2 failed: <what>`. Ranks that only stopped because of another are never the cause; of several causes the
/// lowest rank's counts. The devices end with this call: no tensor made in the body may outlive it. In a job all
/// processes call it, and the same error is thrown on all of them; a process beyond the mesh runs nothing.
void run_ranks(const WorldOptions& options, const std::function<void(Rank&)>& body);

}  // namespace heddle
