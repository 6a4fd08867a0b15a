// A connection by sockets between two processes: its end, invalid frames, and its set-up.
#include "parallel/transports/processes/tcp/tcp_connection.h"

#include <functional>
#include <thread>

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "framework/error.h"
#include "parallel/transports/processes/wire.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/processes/raw_sockets.h"

namespace heddle::test::tcp_connection_test {

namespace {

struct Pair {
  TcpSocket listening = TcpSocket::listen(0);
  TcpSocket one = connected_to(ntohs(listening.local_address().port));
  TcpSocket other = accepted_by(listening);
};

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void progress_until(TcpConnection& connection, const std::function<bool()>& ready) {
  for (const auto end = soon(); !ready() && TcpSocket::Clock::now() < end;) connection.progress();
  CHECK(ready());
}

/// The reason why a connection ended after receiving these bytes.
std::string refused(const TcpConnection::Header& header) {
  Pair pair;
  TcpConnection connection(std::move(pair.one));
  std::vector<std::byte> memory(100);
  connection.receive(std::make_shared<TcpConnection::Elements>(TcpConnection::Elements{memory.data(), 100, 5, false}));
  say(pair.other, header);
  progress_until(connection, [&] { return connection.is_gone(); });
  // The peer can still be sent the reason.
  connection.post(bytes_of("no"), {}, false);
  const auto receive_message = hear<TcpConnection::Header>(pair.other);
  CHECK(receive_message.kind == TcpConnection::Kind::last_message_frame);
  CHECK(receive_message.bytes == 2);
  return connection.why_gone();
}

int option_of(const TcpSocket& socket, int level, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  CHECK(::getsockopt(socket.descriptor(), level, option, &value, &size) == 0);
  return value;
}

}  // namespace

TEST_CASE("sockets: the last message of a process is read, although it ended before it could be answered") {
  Pair pair;
  TcpConnection connection(std::move(pair.one));
  {
    TcpConnection other(std::move(pair.other));
    connection.post(bytes_of("which it never reads"), {}, false);
    other.post(bytes_of("a simulated"), bytes_of(" failure"), true);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }  // the system reports that there was something left to read: writing now fails
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (int i = 0; i < 3; ++i) connection.post(bytes_of("unread"), {}, false);
  progress_until(connection, [&] { return connection.is_gone(); });
  const std::optional<TcpConnection::MessageFrame> frame = connection.next_frame();
  REQUIRE(frame);
  CHECK(frame->content == bytes_of("a simulated failure"));
  CHECK(frame->more_follow);
  CHECK(connection.why_gone() == "its process has ended");
}

TEST_CASE("sockets: two processes that end writing have read everything that the other wrote") {
  Pair pair;
  TcpConnection one(std::move(pair.one));
  TcpConnection other(std::move(pair.other));
  const std::vector<std::byte> head(Wire::max_frame);
  for (int i = 0; i < 200; ++i) one.post(head, {}, false);  // more than the system takes at once
  one.end_writing();
  other.end_writing();
  int sheets = 0;
  progress_until(other, [&] {
    one.progress();
    while (other.next_frame()) ++sheets;
    return one.is_gone() && other.is_gone();
  });
  CHECK(sheets == 200);
}

TEST_CASE("sockets: an invalid frame is refused before it is processed") {
  using Kind = TcpConnection::Kind;
  const std::string same_build = ": all processes must run the same build of this program";
  CHECK(refused({static_cast<Kind>(77), 0, 0}) == "it sent a frame of kind 77" + same_build);
  for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{16385}, std::int64_t{1} << 60})
    CHECK(refused({Kind::message_frame, 0, bytes}) ==
          fmt::format("it sent part of a message, of {} bytes", bytes) + same_build);
  for (const std::int64_t bytes : {std::int64_t{-8}, std::int64_t{0}, std::int64_t{101}, std::int64_t{1} << 60})
    CHECK(refused({Kind::elements, 5, bytes}) ==
          fmt::format("it sent {} bytes of elements, tag 5, which were not requested", bytes) + same_build);
  CHECK(refused({Kind::elements, 6, 100}) ==
        "it sent 100 bytes of elements, tag 6, which were not requested" + same_build);
}

TEST_CASE("sockets: the memory of a cancelled receive is no longer written") {
  Pair pair;
  TcpConnection connection(std::move(pair.one));
  std::vector<std::byte> memory(100);
  const auto elements =
      std::make_shared<TcpConnection::Elements>(TcpConnection::Elements{memory.data(), 100, 5, false});
  connection.receive(elements);
  const std::vector<std::byte> half(50, std::byte{1});
  say(pair.other, TcpConnection::Header{TcpConnection::Kind::elements, 5, 100});
  CHECK(::send(pair.other.descriptor(), half.data(), half.size(), 0) == 50);
  progress_until(connection, [&] { return memory[49] == std::byte{1}; });
  TcpConnection::cancel(*elements);
  CHECK(::send(pair.other.descriptor(), half.data(), half.size(), 0) == 50);
  // What comes then is understood.
  say(pair.other, TcpConnection::Header{TcpConnection::Kind::last_message_frame, 0, 3});
  CHECK(::send(pair.other.descriptor(), half.data(), 3, 0) == 3);
  std::optional<TcpConnection::MessageFrame> frame;
  progress_until(connection, [&] {
    if (!frame) frame = connection.next_frame();
    return frame.has_value();
  });
  CHECK(frame->content.size() == 3);
  CHECK_FALSE(connection.is_gone());
  CHECK(std::all_of(memory.begin() + 50, memory.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_CASE("sockets: both ends notice within a minute that the other's machine no longer responds") {
  const Pair pair;
  for (const TcpSocket* end : {&pair.one, &pair.other}) {
    CHECK(option_of(*end, SOL_SOCKET, SO_KEEPALIVE) != 0);
    const int idle = option_of(*end, IPPROTO_TCP, TCP_KEEPIDLE);
    const int interval = option_of(*end, IPPROTO_TCP, TCP_KEEPINTVL);
    CHECK(idle + interval * option_of(*end, IPPROTO_TCP, TCP_KEEPCNT) == 60);
    CHECK(option_of(*end, IPPROTO_TCP, TCP_USER_TIMEOUT) == 60000);
    CHECK(option_of(*end, IPPROTO_TCP, TCP_NODELAY) != 0);
  }
}

TEST_CASE("sockets: a socket that has connected to itself is detected") {
  const TcpSocket itself(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(itself.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  address.sin_port = itself.local_address().port;
  REQUIRE(::connect(itself.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  CHECK(itself.is_with_itself());
  const Pair pair;
  CHECK_FALSE(pair.one.is_with_itself());
  CHECK_FALSE(pair.other.is_with_itself());
}

TEST_CASE("sockets: a connection to a port without a listener fails, and does not reach itself") {
  // The system gives even ports to connecting sockets, one after the other, and this one several times.
  const TcpAddress unused = TcpSocket::resolve("127.0.0.1", static_cast<std::uint16_t>((free_port() + 1) & ~1));
  int reached = 0;
  for (int i = 0; i < 40000; ++i) {
    try {
      (void)TcpSocket::connect(unused, "unused", TcpSocket::Clock::now());
      ++reached;
    } catch (const RankFailed&) {  // once, as the deadline is now
    }
  }
  CHECK(reached == 0);
}

}  // namespace heddle::test::tcp_connection_test
