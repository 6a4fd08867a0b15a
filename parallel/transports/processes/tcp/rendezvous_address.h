// Where and for how long processes that were started without MPI wait for each other, from the environment of each.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace heddle {

/// Where rank 0 listens, and by which of its network interfaces a process is reached.
struct RendezvousAddress {
  std::string host;
  std::uint16_t port = 0;
  std::string interface {};  // `eth0`, or a subnet that it is in, `10.0.0.0/8`; empty: any
};

/// `node7:29500`.
std::string to_string(const RendezvousAddress& address);

/// How long a process waits for the others, and after what time it reports to `on_note` that it waits.
struct RendezvousTimeouts {
  std::chrono::milliseconds timeout = std::chrono::minutes(2);
  std::chrono::milliseconds note_after = std::chrono::seconds(5);
  /// How long rank 0 of a job that has restarted waits, before the others restart without those that have ended since.
  std::chrono::milliseconds restart_timeout = std::chrono::seconds(12);
  std::function<void(const std::string& what)> on_note{};  // `rank 0 waits at node7:29500 for ranks 1, 3`
};

/// Whether MASTER_ADDR and MASTER_PORT are set.
bool has_rendezvous_address();
/// From these two variables and HEDDLE_INTERFACE; nothing unless both are set, InputError if the second is not a port.
std::optional<RendezvousAddress> rendezvous_address_of_environment();
/// HEDDLE_RENDEZVOUS_SECONDS, or two minutes; InputError if it is not a number from 1 to 86,400.
RendezvousTimeouts rendezvous_timeouts_of_environment();
/// For a process without a place in a job: InputError if RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT were meant to
/// give it one and are not complete, so that the process does not run the whole job by itself. A WORLD_SIZE of 1 means
/// no job.
void check_rendezvous_of_environment();

}  // namespace heddle
