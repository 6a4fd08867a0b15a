#include "parallel/transports/processes/tcp/tcp_reply.h"

#include <string>

#include "framework/error.h"

namespace heddle {

namespace {

// For bytes that only have to cross the network.
constexpr std::chrono::seconds reply_timeout{10};

class ReplyReader {
 public:
  ReplyReader(const TcpSocket& socket, const std::string& leader, std::chrono::milliseconds timeout)
      : socket_(socket), leader_(leader), timeout_(timeout), deadline_(TcpSocket::Clock::now() + timeout) {}

  void read(std::span<std::byte> bytes) const {
    const TcpSocket::Outcome outcome = socket_.read(bytes, deadline_);
    if (outcome == TcpSocket::Outcome::closed) fail<RankFailed>("{} disconnected during the rendezvous", leader_);
    if (outcome == TcpSocket::Outcome::late)
      fail<RankFailed>("{} did not answer within {} s", leader_, std::chrono::duration<double>(timeout_).count());
  }
  template <class T>
  T read() const {
    T value;
    read(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  std::string read_text(std::uint32_t bytes) const {
    if (bytes > TcpReply::max_bytes) fail_malformed(fmt::format("{} bytes of text", bytes));
    std::string text(bytes, ' ');
    read(std::as_writable_bytes(std::span(text)));
    return text;
  }
  [[noreturn]] void fail_malformed(const std::string& what) const {
    fail<RankFailed>("{} answered with {}: all processes must run the same build of this program", leader_, what);
  }

 private:
  const TcpSocket& socket_;
  const std::string& leader_;
  std::chrono::milliseconds timeout_;
  TcpSocket::Deadline deadline_;
};

}  // namespace

void send_reply(const TcpSocket& to, TcpReply::Kind kind, std::span<const std::byte> content) {
  const TcpReply header{.kind = kind, .bytes = static_cast<std::uint32_t>(content.size())};
  const TcpSocket::Deadline end = TcpSocket::Clock::now() + reply_timeout;
  if (to.write(std::as_bytes(std::span(&header, 1)), end) == TcpSocket::Outcome::done) (void)to.write(content, end);
}

void send_reply(const TcpSocket& to, TcpReply::Kind kind, std::string_view text) {
  send_reply(to, kind, std::as_bytes(std::span(text.substr(0, TcpReply::max_bytes))));
}

std::optional<TcpAssignment> receive_reply(const TcpSocket& socket, const std::string& leader,
                                           std::span<std::byte> hellos, std::chrono::milliseconds timeout) {
  const ReplyReader reader(socket, leader, timeout);
  const auto header = reader.read<TcpReply>();
  switch (header.kind) {
    case TcpReply::Kind::hellos:
      if (header.bytes != hellos.size()) reader.fail_malformed(fmt::format("a list of {} bytes", header.bytes));
      reader.read(hellos);
      return {};
    case TcpReply::Kind::wrong_input:
      fail<InputError>("{}", reader.read_text(header.bytes));
    case TcpReply::Kind::failed:
      fail<RankFailed>("{}", reader.read_text(header.bytes));
    case TcpReply::Kind::assignment: {
      if (header.bytes != sizeof(TcpAssignment)) reader.fail_malformed(fmt::format("a rank of {} bytes", header.bytes));
      const auto given = reader.read<TcpAssignment>();
      if (!given.is_possible())
        reader.fail_malformed(fmt::format("rank {} of {} for this process", given.rank, given.size));
      return given;
    }
  }
  reader.fail_malformed(fmt::format("something of kind {}", static_cast<std::uint32_t>(header.kind)));
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
