// A wire of sockets, where processes were started without MPI: by hand, by a script or by srun, each with RANK,
// WORLD_SIZE, MASTER_ADDR and MASTER_PORT (or Open MPI's or Slurm's names for the first two).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "parallel/processes.h"
#include "parallel/wire.h"

namespace heddle {

/// Where the processes of a job meet: rank 0 listens there.
struct MeetingPoint {
  std::string host;
  std::uint16_t port = 0;
};
/// Whether there are MASTER_ADDR and MASTER_PORT.
bool has_meeting_point();
/// By these; nothing without both, InputError if the second is no port.
std::optional<MeetingPoint> meeting_point_of_environment();

/// Connects this process with all others of the launch, and waits for them so long; RankFailed names those that did not
/// come, InputError what is wrong with the meeting point.
std::unique_ptr<Wire> join_by_tcp(const Launch& launch, const MeetingPoint& meeting_point,
                                  std::chrono::milliseconds patience = std::chrono::minutes(2));

}  // namespace heddle
