#include "parallel/transports/processes/tcp/tcp_reply.h"

#include <chrono>

namespace heddle {

namespace {

// For bytes that only have to cross the network.
constexpr std::chrono::seconds reply_timeout{10};

}  // namespace

void send_reply(const TcpSocket& to, TcpReply::Kind kind, std::span<const std::byte> content) {
  const TcpReply header{.kind = kind, .bytes = static_cast<std::uint32_t>(content.size())};
  const TcpSocket::Deadline end = TcpSocket::Clock::now() + reply_timeout;
  if (to.write(std::as_bytes(std::span(&header, 1)), end) == TcpSocket::Outcome::done) (void)to.write(content, end);
}

void send_reply(const TcpSocket& to, TcpReply::Kind kind, std::string_view text) {
  send_reply(to, kind, std::as_bytes(std::span(text.substr(0, TcpReply::max_bytes))));
}

int assign_ranks(const std::vector<const TcpSocket*>& others, int restarts) {
  TcpAssignment given{.rank = 0, .size = static_cast<std::int32_t>(others.size()) + 1, .restarts = restarts};
  for (const TcpSocket* const other : others) {
    ++given.rank;
    send_reply(*other, TcpReply::Kind::assignment, std::as_bytes(std::span(&given, 1)));
  }
  return given.size;
}

}  // namespace heddle
