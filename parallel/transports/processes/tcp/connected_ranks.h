// What rank 0 of a restart knows of the others, while they connect to each other. Internal to the wire of sockets.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

class ConnectedRanks {
 public:
  /// By the connections to all ranks, in their order; they outlive this.
  explicit ConnectedRanks(std::span<const TcpSocket> sockets) : sockets_(sockets) {}

  /// False once that rank has ended, as far as is known, or its connection is closed here. Reads whether it is
  /// connected to all others, if it has said so (TcpReply::Kind::complete).
  bool is_there(int rank);
  /// The ranks above 0 that have not said so yet.
  std::vector<int> unconnected() const;

 private:
  std::span<const TcpSocket> sockets_;
  std::set<int> connected_;
};

}  // namespace heddle
