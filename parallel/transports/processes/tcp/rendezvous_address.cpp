#include "parallel/transports/processes/tcp/rendezvous_address.h"

#include <cstdlib>

#include "framework/error.h"
#include "parallel/transports/processes/number.h"

namespace heddle {

namespace {

/// What the variable holds; an empty one is as if it were not there.
const char* value_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

}  // namespace

bool has_meeting_point() {
  return value_of("MASTER_ADDR") != nullptr && value_of("MASTER_PORT") != nullptr;
}

std::optional<MeetingPoint> meeting_point_of_environment() {
  if (!has_meeting_point()) return {};
  const char* const text = value_of("MASTER_PORT");
  const std::uint16_t port = number_of<std::uint16_t>(text).value_or(0);
  if (port == 0) fail<InputError>("MASTER_PORT: expected a port of [1, 65535], got '{}'", text);
  return MeetingPoint{value_of("MASTER_ADDR"), port};
}

MeetingPatience meeting_patience_of_environment() {
  const char* const text = value_of("HEDDLE_MEETING_SECONDS");
  if (text == nullptr) return {};
  const int seconds = number_of<int>(text).value_or(0);
  if (seconds < 1 || seconds > 86400)
    fail<InputError>("HEDDLE_MEETING_SECONDS: expected a number of [1, 86400], got '{}'", text);
  return {.longest = std::chrono::seconds(seconds)};
}

void check_meeting_of_environment() {
  const char* const rank = value_of("RANK");
  const char* const size = value_of("WORLD_SIZE");
  const char* const host = value_of("MASTER_ADDR");
  const char* const port = value_of("MASTER_PORT");
  if (rank == nullptr && size == nullptr) return;
  // Others set these two for purposes of their own; who names a rank and several processes means a job.
  const bool means_job = rank != nullptr && size != nullptr && number_of<int>(size).value_or(1) > 1;
  if (host == nullptr && port == nullptr && !means_job) return;
  const auto told = [](const char* text) { return text != nullptr ? fmt::format("'{}'", text) : "nothing"; };
  if (host == nullptr || port == nullptr)
    fail<InputError>("MASTER_ADDR and MASTER_PORT: expected a host and a port, got {} and {}", told(host), told(port));
  fail<InputError>("RANK and WORLD_SIZE: expected two numbers, got {} and {}", told(rank), told(size));
}

}  // namespace heddle
