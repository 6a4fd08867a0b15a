// Where processes that were started without MPI meet, as the environment of each tells it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace heddle {

/// Rank 0 listens there.
struct RendezvousAddress {
  std::string host;
  std::uint16_t port = 0;
};

/// How long a process waits for the others, and after what time it says so.
struct RendezvousPatience {
  std::chrono::milliseconds longest = std::chrono::minutes(2);
  std::chrono::milliseconds silent = std::chrono::seconds(5);
  std::function<void(const std::string& what)> on_wait{};  // `rank 0 waits at node7:29500 for ranks 1, 3`
};

/// Whether there are MASTER_ADDR and MASTER_PORT.
bool has_rendezvous_address();
/// By these; nothing without both, InputError if the second is no port.
std::optional<RendezvousAddress> rendezvous_address_of_environment();
/// For HEDDLE_RENDEZVOUS_SECONDS, or two minutes; InputError if that is no number from 1 to 86,400.
RendezvousPatience rendezvous_patience_of_environment();
/// For a process that no launcher has given a place in a job: InputError if RANK and WORLD_SIZE, MASTER_ADDR and
/// MASTER_PORT were to give it one and cannot, so that it does not run all of the job by itself. A WORLD_SIZE of 1 is
/// none.
void check_rendezvous_of_environment();

}  // namespace heddle
