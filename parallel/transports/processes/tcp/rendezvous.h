// The rendezvous of the processes of a job without MPI: each process reports to rank 0 where it listens, rank 0 sends
// the list to all, and each connects to the ranks below its own.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/communicator/transport.h"
#include "parallel/transports/processes/launch.h"
#include "parallel/transports/processes/tcp/job_secret.h"
#include "parallel/transports/processes/tcp/listener.h"
#include "parallel/transports/processes/tcp/rendezvous_address.h"
#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

struct RendezvousResult {
  std::vector<TcpSocket> sockets;     // one per rank; this process's own is closed
  TcpSocket listening;                // open if the job is elastic
  std::uint64_t job = 0;              // the number that rank 0 has drawn
  std::vector<TcpAddress> addresses;  // at which the ranks listen, seen from this process
  int local_rank = 0;                 // among the processes of this machine
  int local_size = 1;
};

/// See join_by_tcp (tcp_wire.h). RankAssigned if the job restarts meanwhile.
RendezvousResult rendezvous(const Launch& launch, const RendezvousAddress& address, const RendezvousTimeouts& timeouts,
                            const JobSecret& secret);

}  // namespace heddle
