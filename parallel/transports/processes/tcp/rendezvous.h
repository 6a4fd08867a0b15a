// How the processes of a job find each other without MPI: each tells rank 0 where it listens, rank 0 tells everybody,
// and each connects to those before it.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/transports/processes/launch.h"
#include "parallel/transports/processes/tcp/listener.h"
#include "parallel/transports/processes/tcp/rendezvous_address.h"
#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

/// What rank 0 answers to a hello, once all have come or it has given up: the hellos of all ranks, or the error in
/// words.
struct TcpReply {
  enum class Kind : std::uint32_t { hellos, wrong_input, failed };
  /// Of the words.
  static constexpr std::uint32_t max_bytes = 4096;

  TcpPreamble preamble;
  Kind kind{};
  std::uint32_t bytes = 0;  // that follow
};

struct RendezvousResult {
  std::vector<TcpSocket> sockets;  // by rank; this process's own is closed
  int local_rank = 0;              // among the processes of this machine
  int local_size = 1;
};

/// See join_by_tcp (tcp_wire.h). Strangers who come to the meeting are sent away.
RendezvousResult rendezvous(const Launch& launch, const RendezvousAddress& point, const RendezvousPatience& patience);

}  // namespace heddle
