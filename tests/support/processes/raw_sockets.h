// The peer of a process that connects to others by sockets: the test decides every byte that it sends.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "parallel/transports/processes/tcp/handshake.h"
#include "parallel/transports/processes/tcp/listener.h"
#include "parallel/transports/processes/tcp/tcp_reply.h"

namespace heddle::test {

inline TcpSocket::Deadline soon() {
  return TcpSocket::Clock::now() + std::chrono::seconds(20);
}

inline TcpSocket connected_to(std::uint16_t port) {
  return TcpSocket::connect(TcpSocket::resolve("127.0.0.1", port), "the tested process", soon());
}

/// Two connected sockets without a network.
struct SocketPair {
  TcpSocket connecting;
  TcpSocket accepting;

  SocketPair() {
    std::array<int, 2> numbers{-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, numbers.data()) == 0);
    connecting = TcpSocket(numbers[0]);
    accepting = TcpSocket(numbers[1]);
  }
};

/// Waits for a connection.
inline TcpSocket accepted_by(const TcpSocket& listening) {
  for (const auto end = soon(); TcpSocket::Clock::now() < end;) {
    TcpSocket socket = listening.accept();
    if (socket.is_open()) return socket;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  FAIL("no process connects");
  return {};
}

/// After the handshake of a process that knows the secret.
inline TcpSocket joined_to(std::uint16_t port, const JobSecret& secret = {}) {
  TcpSocket socket = connected_to(port);
  CHECK(connecting_handshake(socket, secret, soon()).kind == HandshakeResult::Kind::done);
  return socket;
}

/// The end of the handshake on the accepting side.
inline AcceptingHandshake::State end_of(AcceptingHandshake& handshake, const TcpSocket& socket,
                                        const JobSecret& secret) {
  using State = AcceptingHandshake::State;
  State state = State::unfinished;
  for (const auto end = soon(); state == State::unfinished && TcpSocket::Clock::now() < end;) {
    state = handshake.progress(socket, secret);
    if (state == State::unfinished) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return state;
}
/// Waits for a connection, and for its handshake.
inline TcpSocket joined_by(const TcpSocket& listening, const JobSecret& secret = {}) {
  TcpSocket socket = accepted_by(listening);
  AcceptingHandshake handshake;
  CHECK(end_of(handshake, socket, secret) == AcceptingHandshake::State::done);
  return socket;
}

inline void say(const TcpSocket& socket, std::string_view text) {
  CHECK(socket.write(std::as_bytes(std::span(text)), soon()) == TcpSocket::Outcome::done);
}
template <class T>
requires(std::is_trivially_copyable_v<T> &&
         !std::is_convertible_v<T, std::string_view>) void say(const TcpSocket& socket, const T& value) {
  CHECK(socket.write(std::as_bytes(std::span(&value, 1)), soon()) == TcpSocket::Outcome::done);
}

template <class T>
T hear(const TcpSocket& socket) {
  T value{};
  CHECK(socket.read(std::as_writable_bytes(std::span(&value, 1)), soon()) == TcpSocket::Outcome::done);
  return value;
}
inline std::string hear_text(const TcpSocket& socket, std::size_t bytes) {
  std::string text(bytes, ' ');
  CHECK(socket.read(std::as_writable_bytes(std::span(text)), soon()) == TcpSocket::Outcome::done);
  return text;
}
/// Whether the peer closes the connection without sending anything more.
inline bool is_sent_away(const TcpSocket& socket) {
  std::byte byte{};
  return socket.read(std::span(&byte, 1), soon()) == TcpSocket::Outcome::closed;
}

inline TcpHello hello_of(int rank, int size, const TcpAddress& address = {htonl(INADDR_LOOPBACK), htons(1)}) {
  TcpHello hello;
  hello.rank = rank;
  hello.size = size;
  hello.address = address;
  std::string_view("node1").copy(hello.machine.data(), hello.machine.size());
  return hello;
}

}  // namespace heddle::test
