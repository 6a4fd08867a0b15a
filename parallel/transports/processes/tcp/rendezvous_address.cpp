#include "parallel/transports/processes/tcp/rendezvous_address.h"

#include <cstdlib>

#include "framework/error.h"
#include "parallel/transports/processes/number.h"

namespace heddle {

namespace {

/// The value of the variable; null if it is empty or not set.
const char* value_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

}  // namespace

std::string to_string(const RendezvousAddress& address) {
  return fmt::format("{}:{}", address.host, address.port);
}

bool has_rendezvous_address() {
  return value_of("MASTER_ADDR") != nullptr && value_of("MASTER_PORT") != nullptr;
}

std::optional<RendezvousAddress> rendezvous_address_of_environment() {
  if (!has_rendezvous_address()) return {};
  const char* const text = value_of("MASTER_PORT");
  const std::uint16_t port = number_of<std::uint16_t>(text).value_or(0);
  if (port == 0) fail<InputError>("MASTER_PORT: expected a port of [1, 65535], got '{}'", text);
  const char* const interface = value_of("HEDDLE_INTERFACE");
  return RendezvousAddress{value_of("MASTER_ADDR"), port, interface != nullptr ? interface : ""};
}

RendezvousTimeouts rendezvous_timeouts_of_environment() {
  const char* const text = value_of("HEDDLE_RENDEZVOUS_SECONDS");
  if (text == nullptr) return {};
  const int seconds = number_of<int>(text).value_or(0);
  if (seconds < 1 || seconds > 86400)
    fail<InputError>("HEDDLE_RENDEZVOUS_SECONDS: expected a number of [1, 86400], got '{}'", text);
  return {.timeout = std::chrono::seconds(seconds)};
}

void check_rendezvous_of_environment() {
  const char* const rank = value_of("RANK");
  const char* const size = value_of("WORLD_SIZE");
  const char* const host = value_of("MASTER_ADDR");
  const char* const port = value_of("MASTER_PORT");
  if (rank == nullptr && size == nullptr) return;
  // Other software sets these two for its own purposes; only a rank together with several processes means a job.
  const bool means_job = rank != nullptr && size != nullptr && number_of<int>(size).value_or(1) > 1;
  if (host == nullptr && port == nullptr && !means_job) return;
  const auto given = [](const char* text) { return text != nullptr ? fmt::format("'{}'", text) : "nothing"; };
  if (host == nullptr || port == nullptr)
    fail<InputError>("MASTER_ADDR and MASTER_PORT: expected a host and a port, got {} and {}", given(host),
                     given(port));
  fail<InputError>("RANK and WORLD_SIZE: expected two numbers, got {} and {}", given(rank), given(size));
}

}  // namespace heddle
