// What the process that leads a rendezvous, or the restart of a job, sends to the others. Internal to the wire of
// sockets.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/communicator/transport.h"
#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

/// The reply of rank 0 to a hello, once all ranks have come or it has given up: the hellos of all ranks, or the text of
/// the error. Where the job restarts: the process's rank, and between processes that meet for a restart, without
/// content, that this process is connected to all others (to rank 0), and that all are (from rank 0).
struct TcpReply {
  enum class Kind : std::uint32_t { hellos, wrong_input, failed, assignment, complete };
  /// The size of the longest text.
  static constexpr std::uint32_t max_bytes = 4096;

  Kind kind{};
  std::uint32_t bytes = 0;  // that follow
};

/// Sends a reply and what follows it, or the text of an error, of which at most TcpReply::max_bytes are sent. The loss
/// of a process that does not receive it is noticed later.
void send_reply(const TcpSocket& to, TcpReply::Kind kind, std::span<const std::byte> content);
void send_reply(const TcpSocket& to, TcpReply::Kind kind, std::string_view text);

/// The rank of a process in a job that restarts (regroup.h).
struct TcpAssignment {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::int32_t restarts = 0;

  bool is_possible() const { return rank > 0 && rank < size && size <= max_ranks && restarts > 0; }
};

/// A reply and what follows it, as they were read.
struct ReceivedReply {
  TcpSocket::Outcome outcome{};  // unless it is done, the rest has no meaning
  TcpReply header{};
  std::vector<std::byte> content{};  // nothing if it has more bytes than the reader takes

  std::string text() const;
  /// Nothing if it is something else. The assignment need not be possible.
  std::optional<TcpAssignment> assignment() const;
};

/// Waits for a reply until the deadline, and takes up to `max_content` bytes with it.
ReceivedReply read_reply(const TcpSocket& socket, TcpSocket::Deadline deadline, std::size_t max_content);

/// Reads the reply of rank 0 to this process's hello. Fills `hellos` and returns nothing, or returns this process's
/// rank where the job restarts. If `hellos` is empty, a restart is to be complete instead. InputError or RankFailed
/// with the text of rank 0 where the rendezvous has failed. RankFailed also if rank 0, whose name in errors is
/// `leader`, does not reply within `timeout`, disconnects, or sends something else.
std::optional<TcpAssignment> receive_reply(const TcpSocket& socket, const std::string& leader,
                                           std::span<std::byte> hellos, std::chrono::milliseconds timeout);

/// Gives other processes of a job that restarts the ranks 1, 2, .. in this order, and returns their number with this
/// one. One that does not receive its rank is missing in the rendezvous that follows.
int assign_ranks(const std::vector<const TcpSocket*>& others, int restarts);

}  // namespace heddle
