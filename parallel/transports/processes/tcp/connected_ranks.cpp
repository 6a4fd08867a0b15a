#include "parallel/transports/processes/tcp/connected_ranks.h"

#include "parallel/transports/processes/tcp/tcp_reply.h"

namespace heddle {

bool ConnectedRanks::is_there(int rank) {
  const TcpSocket& socket = sockets_[static_cast<std::size_t>(rank)];
  if (!socket.is_open() || socket.is_peer_open()) return socket.is_open();
  if (connected_.contains(rank)) return false;
  constexpr std::chrono::seconds reply_timeout{10};  // for bytes that only have to cross the network
  const ReceivedReply reply = read_reply(socket, TcpSocket::Clock::now() + reply_timeout, 0);
  if (reply.outcome != TcpSocket::Outcome::done || reply.header.kind != TcpReply::Kind::complete) return false;
  connected_.insert(rank);
  return socket.is_peer_open();
}

std::vector<int> ConnectedRanks::unconnected() const {
  std::vector<int> ranks;
  for (int p = 1; p < static_cast<int>(sockets_.size()); ++p)
    if (!connected_.contains(p)) ranks.push_back(p);
  return ranks;
}

}  // namespace heddle
