#include "parallel/transports/processes/tcp/tcp_reply.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "framework/error.h"
#include "parallel/transports/processes/launch.h"

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

std::string ReceivedReply::text() const {
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

std::optional<TcpAssignment> ReceivedReply::assignment() const {
  TcpAssignment given;
  if (header.kind != TcpReply::Kind::assignment || content.size() != sizeof(given)) return {};
  std::memcpy(&given, content.data(), sizeof(given));
  return given;
}

ReceivedReply read_reply(const TcpSocket& socket, TcpSocket::Deadline deadline, std::size_t max_content) {
  ReceivedReply reply;
  reply.outcome = socket.read(std::as_writable_bytes(std::span(&reply.header, 1)), deadline);
  if (reply.outcome != TcpSocket::Outcome::done || reply.header.bytes > max_content) return reply;
  reply.content.resize(reply.header.bytes);
  reply.outcome = socket.read(reply.content, deadline);
  return reply;
}

std::optional<TcpAssignment> receive_reply(const TcpSocket& socket, const std::string& leader,
                                           std::span<std::byte> hellos, std::chrono::milliseconds timeout) {
  const ReceivedReply reply =
      read_reply(socket, TcpSocket::Clock::now() + timeout, std::max<std::size_t>(hellos.size(), TcpReply::max_bytes));
  if (reply.outcome == TcpSocket::Outcome::closed) fail<LeaderLost>("{} disconnected during the rendezvous", leader);
  if (reply.outcome == TcpSocket::Outcome::late)
    fail<LeaderLost>("{} did not answer within {} s", leader, std::chrono::duration<double>(timeout).count());
  const std::uint32_t bytes = reply.header.bytes;
  const bool is_text_possible = bytes <= TcpReply::max_bytes;
  std::string malformed = fmt::format("{} bytes of text", bytes);
  switch (reply.header.kind) {
    case TcpReply::Kind::hellos:
      if (bytes == hellos.size() && bytes > 0) {
        std::copy(reply.content.begin(), reply.content.end(), hellos.begin());
        return {};
      }
      malformed = fmt::format("a list of {} bytes", bytes);
      break;
    case TcpReply::Kind::complete:
      if (hellos.empty() && bytes == 0) return {};
      malformed = "the end of a restart";
      break;
    case TcpReply::Kind::wrong_input:
      if (is_text_possible) fail<InputError>("{}", reply.text());
      break;
    case TcpReply::Kind::failed:
      if (is_text_possible) fail<RankFailed>("{}", reply.text());
      break;
    case TcpReply::Kind::assignment:
      malformed = fmt::format("a rank of {} bytes", bytes);
      if (const std::optional<TcpAssignment> given = reply.assignment()) {
        if (given->is_possible()) return given;
        malformed = fmt::format("rank {} of {} for this process", given->rank, given->size);
      }
      break;
    default:
      malformed = fmt::format("something of kind {}", static_cast<std::uint32_t>(reply.header.kind));
  }
  fail<RankFailed>("{} answered with {}: all processes must run the same build of this program", leader, malformed);
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
