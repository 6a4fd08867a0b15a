// The place of a process in the job that started it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "framework/error.h"

namespace heddle {

struct Launch {
  int rank = 0;
  int size = 1;
  /// The process's number among those of its machine, where the launcher says so.
  std::optional<int> local_rank{};
  /// An elastic job restarts without the processes that have ended. Its processes stay where the others can reach them.
  bool is_elastic = false;
  /// The number of restarts so far, and the size of the job at its first start, where a restart may have changed it.
  int restarts = 0;
  std::optional<int> first_size{};
  /// In an elastic job, a checksum of the experiment and its options. A process with another one cannot join a restart.
  std::uint64_t call_checksum = 0;
  /// The address at which the process listens, if a restart has decided that.
  std::string listen_host{};
  /// Whether the process takes the place of one that has ended. The others have met elsewhere then, even if it is rank
  /// 0, and assign it a rank when they restart.
  bool was_started_again = false;

  /// Whether the other processes connect to this one.
  bool leads() const { return rank == 0 && !was_started_again; }
};

/// Where the process listens that leads a restart, as the others reach it.
struct LeaderAddress {
  std::string host;
  std::uint16_t port = 0;
  bool operator==(const LeaderAddress&) const = default;
};

/// The rank of a process in a job that restarts, and the address of the rendezvous of that job.
struct RankAssignment {
  int rank = 0;
  int size = 1;
  int restarts = 1;
  std::string host;  // of rank 0, as this process reaches it
  std::uint16_t port = 0;
  std::string listen_host{};  // at which this process listened so far; empty if it did not
};

/// How the processes of a job that are left restart it.
struct RegroupOptions {
  /// How long lost processes, which may have been started again, are waited for while the job has fewer than
  /// `preferred_ranks` processes.
  std::chrono::milliseconds wait_for_lost{};
  int preferred_ranks = 1;
  /// Called in the process that leads the restart, before it waits for the others.
  std::function<void(const LeaderAddress&)> on_lead{};
  /// Called in that process with each process that it turns away, and the reason.
  std::function<void(const std::string& what)> on_turned_away{};
  /// Whether this process gives up, asked several times a second.
  std::function<bool()> is_cancelled = [] { return false; };
};

/// The process that leads has ended while this one waited for its answer, or has not answered in time. In an elastic
/// job another process may lead then.
class LeaderLost : public RankFailed {
 public:
  using RankFailed::RankFailed;
};

/// The job restarts while this process connects, and the process has a rank there.
class RankAssigned : public Error {
 public:
  explicit RankAssigned(RankAssignment assignment)
      : Error("the job restarts while its processes connect"), assignment_(std::move(assignment)) {}
  const RankAssignment& assignment() const { return assignment_; }

 private:
  RankAssignment assignment_;
};

}  // namespace heddle
