// Where processes that were started without MPI meet, as the environment of each tells it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace heddle {

/// Rank 0 listens there.
struct MeetingPoint {
  std::string host;
  std::uint16_t port = 0;
};

/// How long a process waits for the others, and after what time it says so.
struct MeetingPatience {
  std::chrono::milliseconds longest = std::chrono::minutes(2);
  std::chrono::milliseconds silent = std::chrono::seconds(5);
  std::function<void(const std::string& what)> on_wait{};  // `rank 0 waits at node7:29500 for ranks 1, 3`
};

/// Whether there are MASTER_ADDR and MASTER_PORT.
bool has_meeting_point();
/// By these; nothing without both, InputError if the second is no port.
std::optional<MeetingPoint> meeting_point_of_environment();
/// For HEDDLE_MEETING_SECONDS, or two minutes; InputError if that is no number from 1 to 86,400.
MeetingPatience meeting_patience_of_environment();
/// For a process that no launcher has given a place in a job: InputError if RANK and WORLD_SIZE, MASTER_ADDR and
/// MASTER_PORT were to give it one and cannot, so that it does not run all of the job by itself. A WORLD_SIZE of 1 is
/// none.
void check_meeting_of_environment();

}  // namespace heddle
