// Where processes that were started without MPI meet, as the environment of each tells it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace heddle {

/// Rank 0 listens there.
struct MeetingPoint {
  std::string host;
  std::uint16_t port = 0;
};

/// Whether there are MASTER_ADDR and MASTER_PORT.
bool has_meeting_point();
/// By these; nothing without both, InputError if the second is no port.
std::optional<MeetingPoint> meeting_point_of_environment();
/// HEDDLE_MEETING_SECONDS, or two minutes; InputError if that is no number from 1 to 86,400.
std::chrono::seconds meeting_patience_of_environment();
/// For a process that no launcher has given a place in a job: InputError if RANK and WORLD_SIZE, MASTER_ADDR and
/// MASTER_PORT were to give it one and cannot, so that it does not run all of the job by itself.
void check_meeting_of_environment();

}  // namespace heddle
