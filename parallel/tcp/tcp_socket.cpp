#include "parallel/tcp/tcp_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "framework/error.h"

namespace heddle {

namespace {

sockaddr_in to_system(const TcpAddress& address) {
  sockaddr_in system{};
  system.sin_family = AF_INET;
  system.sin_addr.s_addr = address.host;
  system.sin_port = address.port;
  return system;
}

/// False at the deadline.
bool wait_until_ready(int number, short events, TcpSocket::Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd ready{number, events, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (count > 0) return true;
    if (count == 0) return false;
    if (errno != EINTR) fail("poll: {}", std::strerror(errno));
  }
}

}  // namespace

TcpSocket::TcpSocket(int number) : number_(number) {
  if (number < 0) fail("socket: {}", std::strerror(errno));
}

TcpSocket TcpSocket::listen(std::uint16_t port, int backlog) {
  TcpSocket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  (void)::setsockopt(socket.number_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in here = to_system({INADDR_ANY, htons(port)});
  if (::bind(socket.number_, reinterpret_cast<const sockaddr*>(&here), sizeof(here)) != 0 ||
      ::listen(socket.number_, backlog) != 0)
    fail<InputError>("MASTER_PORT: cannot listen on port {}: {}", port, std::strerror(errno));
  return socket;
}

TcpAddress TcpSocket::address_of(const std::string& host, std::uint16_t port) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found); code != 0)
    fail<InputError>("MASTER_ADDR: {}: {}", host, ::gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  return {reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr.s_addr, htons(port)};
}

TcpSocket TcpSocket::connect(const TcpAddress& address, const std::string& whom, Deadline deadline) {
  const sockaddr_in there = to_system(address);
  for (;;) {
    TcpSocket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int error = 0;
    if (::connect(socket.number_, reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0) error = errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof(error);
      if (!wait_until_ready(socket.number_, POLLOUT, deadline))
        error = ETIMEDOUT;
      else
        (void)::getsockopt(socket.number_, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) {
      const int on = 1;  // words are short and waited for
      (void)::setsockopt(socket.number_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      return socket;
    }
    if (std::chrono::steady_clock::now() >= deadline)
      fail<RankFailed>("{} cannot be reached: {}", whom, std::strerror(error));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

std::uint16_t TcpSocket::port() const {
  sockaddr_in here{};
  socklen_t size = sizeof(here);
  (void)::getsockname(number_, reinterpret_cast<sockaddr*>(&here), &size);
  return here.sin_port;
}

std::uint32_t TcpSocket::host_of_peer() const {
  sockaddr_in there{};
  socklen_t size = sizeof(there);
  (void)::getpeername(number_, reinterpret_cast<sockaddr*>(&there), &size);
  return there.sin_addr.s_addr;
}

TcpSocket TcpSocket::accept(Deadline deadline) const {
  while (wait_until_ready(number_, POLLIN, deadline)) {
    const int number = ::accept4(number_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (number < 0) continue;  // it has gone again
    TcpSocket socket(number);
    const int on = 1;
    (void)::setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return socket;
  }
  return {};
}

bool TcpSocket::read(std::span<std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    if (!wait_until_ready(number_, POLLIN, deadline)) return false;
    const ssize_t count = ::recv(number_, bytes.data(), bytes.size(), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool TcpSocket::write(std::span<const std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    if (!wait_until_ready(number_, POLLOUT, deadline)) return false;
    const ssize_t count = ::send(number_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

void TcpSocket::close() {
  if (number_ >= 0) (void)::close(std::exchange(number_, -1));
}

}  // namespace heddle
