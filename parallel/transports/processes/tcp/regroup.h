// The restart of a job without MPI, of which some processes have ended: those that are left agree on new ranks. The
// lowest rank that is left leads: it waits for the others where it listened before, and assigns a rank to each.
// Internal to the wire of sockets.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/transports/processes/launch.h"
#include "parallel/transports/processes/tcp/job_secret.h"
#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

struct Regrouping {
  Launch launch;                      // this process's rank so far
  std::uint64_t job = 0;              // its number, by which its processes recognise each other
  std::string leader_host;            // of the rank 0 so far
  std::vector<TcpAddress> addresses;  // where each rank listens
  std::set<int> lost;                 // ranks that have ended, or do not respond
  RegroupOptions options{};
  /// How long the leader waits for the ranks that are left, at least: one may notice the failure so much later than
  /// another.
  std::chrono::milliseconds wait_for_left = std::chrono::seconds(10);
};

/// Every process of the job that is left calls it, and listens at its address all the while. The new ranks are in the
/// order of the old ones. A process that was started again has the rank that it was started with, or from the second
/// restart on, when ranks may have changed, one after the others. If the leader ends meanwhile, the next rank leads.
/// RankFailed if this process was given no rank by a process that is left; nothing if it is cancelled.
std::optional<RankAssignment> regroup(Regrouping regrouping, const TcpSocket& listening, const JobSecret& secret);

}  // namespace heddle
