// The rendezvous of the processes of a job without MPI: each process reports to rank 0 where it listens, rank 0 sends
// the list to all, and each connects to the ranks below its own.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/transports/processes/launch.h"
#include "parallel/transports/processes/tcp/job_secret.h"
#include "parallel/transports/processes/tcp/listener.h"
#include "parallel/transports/processes/tcp/rendezvous_address.h"
#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

/// The reply of rank 0 to a hello, once all ranks have come or it has given up: the hellos of all ranks, or the text of
/// the error.
struct TcpReply {
  enum class Kind : std::uint32_t { hellos, wrong_input, failed };
  /// The longest text, in bytes.
  static constexpr std::uint32_t max_bytes = 4096;

  Kind kind{};
  std::uint32_t bytes = 0;  // that follow
};

struct RendezvousResult {
  std::vector<TcpSocket> sockets;  // one per rank; this process's own is closed
  int local_rank = 0;              // among the processes of this machine
  int local_size = 1;
};

/// See join_by_tcp (tcp_wire.h).
RendezvousResult rendezvous(const Launch& launch, const RendezvousAddress& point, const RendezvousPatience& patience,
                            const JobSecret& secret);

}  // namespace heddle
