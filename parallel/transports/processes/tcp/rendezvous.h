// The rendezvous of the processes of a job without MPI: each process reports to rank 0 where it listens, rank 0 sends
// the list to all, and each connects to the ranks below its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/communicator/transport.h"
#include "parallel/transports/processes/launch.h"
#include "parallel/transports/processes/tcp/job_secret.h"
#include "parallel/transports/processes/tcp/listener.h"
#include "parallel/transports/processes/tcp/rendezvous_address.h"
#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

/// The reply of rank 0 to a hello, once all ranks have come or it has given up: the hellos of all ranks, or the text of
/// the error. Where the job restarts: the process's rank.
struct TcpReply {
  enum class Kind : std::uint32_t { hellos, wrong_input, failed, assignment };
  /// The longest text, in bytes.
  static constexpr std::uint32_t max_bytes = 4096;

  Kind kind{};
  std::uint32_t bytes = 0;  // that follow
};

/// Sends a reply and what follows it. The loss of a process that does not receive it is noticed later.
void send_reply(const TcpSocket& to, TcpReply::Kind kind, std::span<const std::byte> content);

/// The rank of a process in a job that restarts (regroup.h).
struct TcpAssignment {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::int32_t restarts = 0;

  bool is_possible() const { return rank > 0 && rank < size && size <= max_ranks && restarts > 0; }
};

struct RendezvousResult {
  std::vector<TcpSocket> sockets;     // one per rank; this process's own is closed
  TcpSocket listening;                // open if the job is elastic
  std::uint64_t job = 0;              // the number that rank 0 has drawn
  std::vector<TcpAddress> addresses;  // at which the ranks listen, seen from this process
  int local_rank = 0;                 // among the processes of this machine
  int local_size = 1;
};

/// See join_by_tcp (tcp_wire.h). RankAssigned if this process came to a job that restarts.
RendezvousResult rendezvous(const Launch& launch, const RendezvousAddress& point, const RendezvousPatience& patience,
                            const JobSecret& secret);

}  // namespace heddle
