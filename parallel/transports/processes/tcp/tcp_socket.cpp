#include "parallel/transports/processes/tcp/tcp_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "framework/error.h"

namespace heddle {

namespace {

#ifndef TCP_RTO_MAX_MS
constexpr int TCP_RTO_MAX_MS = 44;  // since Linux 6.15, whose headers may be newer than those of this system
#endif
// Otherwise the system waits twice as long after each attempt, and finds a link up again only after twice the time for
// which it was down.
constexpr int max_retransmission_ms = 1000;

sockaddr_in to_system(const TcpAddress& address) {
  sockaddr_in system{};
  system.sin_family = AF_INET;
  system.sin_addr.s_addr = address.host;
  system.sin_port = address.port;
  return system;
}

using NameOfSocket = int (*)(int, sockaddr*, socklen_t*);

TcpAddress from_system(int descriptor, NameOfSocket name) {
  sockaddr_in system{};
  socklen_t size = sizeof(system);
  (void)name(descriptor, reinterpret_cast<sockaddr*>(&system), &size);
  return {system.sin_addr.s_addr, system.sin_port};
}

TcpSocket new_socket() {
  return TcpSocket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void set_up_connection(const TcpSocket& socket) {
  const auto set = [&socket](int level, int option, int value) {
    (void)::setsockopt(socket.descriptor(), level, option, &value, sizeof(value));
  };
  constexpr int silence = static_cast<int>(TcpSocket::max_silence.count());
  set(IPPROTO_TCP, TCP_NODELAY, 1);  // control messages are short and waited for
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, silence / 3);
  set(IPPROTO_TCP, TCP_KEEPINTVL, silence / 6);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, silence * 1000);
  set(IPPROTO_TCP, TCP_RTO_MAX_MS, max_retransmission_ms);
}

/// False at the deadline.
bool wait_until_ready(int descriptor, short events, TcpSocket::Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - TcpSocket::Clock::now());
    pollfd ready{descriptor, events, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (count > 0) return true;
    if (count == 0) return false;
    if (errno != EINTR) fail("poll: {}", std::strerror(errno));
  }
}

/// The system's error, or 0.
int try_to_connect(const TcpSocket& socket, const TcpAddress& address, TcpSocket::Deadline deadline) {
  const sockaddr_in there = to_system(address);
  int error = 0;
  if (::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0) error = errno;
  if (error == EINPROGRESS) {
    if (!wait_until_ready(socket.descriptor(), POLLOUT, deadline)) return ETIMEDOUT;
    socklen_t size = sizeof(error);
    (void)::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0 || !socket.is_with_itself()) return error;
  // Closed at once: otherwise the process that is to listen at this port would find it taken for a minute.
  const linger at_once{1, 0};
  (void)::setsockopt(socket.descriptor(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  return ECONNREFUSED;
}

}  // namespace

std::string host_text(std::uint32_t host) {
  std::array<char, INET_ADDRSTRLEN> text{};
  return ::inet_ntop(AF_INET, &host, text.data(), text.size());
}

std::string to_string(const TcpAddress& address) {
  return fmt::format("{}:{}", host_text(address.host), ntohs(address.port));
}

bool is_loopback(const TcpAddress& address) {
  return ntohl(address.host) >> 24 == 127;
}

bool is_temporary(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

TcpSocket::TcpSocket(int descriptor) : descriptor_(descriptor) {
  if (descriptor < 0) fail("socket: {}", std::strerror(errno));
}

TcpSocket TcpSocket::listen(std::uint16_t port, std::uint32_t host) {
  TcpSocket socket = new_socket();
  const int on = 1;
  (void)::setsockopt(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in here = to_system({host, htons(port)});
  if (::bind(socket.descriptor_, reinterpret_cast<const sockaddr*>(&here), sizeof(here)) != 0 ||
      ::listen(socket.descriptor_, SOMAXCONN) != 0)
    fail<InputError>("MASTER_PORT: cannot listen on port {}: {}", port, std::strerror(errno));
  return socket;
}

TcpAddress TcpSocket::resolve(const std::string& host, std::uint16_t port) {
  addrinfo request{};
  request.ai_family = AF_INET;
  request.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), nullptr, &request, &found); code != 0)
    fail<InputError>("MASTER_ADDR: {}: {}", host, ::gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  return {reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr.s_addr, htons(port)};
}

TcpSocket TcpSocket::connect(const TcpAddress& address, const std::string& peer, Deadline deadline) {
  for (;;) {
    TcpSocket socket = new_socket();
    const int error = try_to_connect(socket, address, deadline);
    if (error == 0) {
      set_up_connection(socket);
      return socket;
    }
    if (Clock::now() >= deadline) {
      constexpr std::string_view refused =
          " (it has not started, has ended, or all ranks of its job have connected already)";
      fail<RankFailed>("{} cannot be reached: {}{}", peer, std::strerror(error), error == ECONNREFUSED ? refused : "");
    }
    socket.close();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

TcpSocket TcpSocket::try_connect(const TcpAddress& address, Deadline deadline) {
  TcpSocket socket = new_socket();
  if (try_to_connect(socket, address, deadline) != 0) return {};
  set_up_connection(socket);
  return socket;
}

TcpAddress TcpSocket::local_address() const {
  return from_system(descriptor_, [](int n, sockaddr* name, socklen_t* size) { return ::getsockname(n, name, size); });
}

TcpAddress TcpSocket::peer_address() const {
  return from_system(descriptor_, [](int n, sockaddr* name, socklen_t* size) { return ::getpeername(n, name, size); });
}

TcpSocket TcpSocket::accept() const {
  const int descriptor = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (descriptor < 0) return {};  // no connection, or one that has ended again
  TcpSocket socket(descriptor);
  set_up_connection(socket);
  return socket;
}

std::optional<std::size_t> TcpSocket::read_some(std::span<std::byte> bytes) const {
  const ssize_t count = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
  if (count > 0) return static_cast<std::size_t>(count);
  if (count < 0 && is_temporary(errno)) return 0;
  return {};
}

TcpSocket::Outcome TcpSocket::read(std::span<std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    if (!wait_until_ready(descriptor_, POLLIN, deadline)) return Outcome::late;
    const std::optional<std::size_t> count = read_some(bytes);
    if (!count) return Outcome::closed;
    bytes = bytes.subspan(*count);
  }
  return Outcome::done;
}

TcpSocket::Outcome TcpSocket::write(std::span<const std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    if (!wait_until_ready(descriptor_, POLLOUT, deadline)) return Outcome::late;
    const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && !is_temporary(errno)) return Outcome::closed;
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return Outcome::done;
}

bool TcpSocket::wait_for_reply(Deadline deadline, const std::function<bool()>& is_cancelled) const {
  constexpr std::chrono::milliseconds interval{100};
  while (Clock::now() < deadline) {
    if (is_cancelled()) return false;
    if (wait_until_ready(descriptor_, POLLIN, std::min<Deadline>(deadline, Clock::now() + interval))) return true;
  }
  return true;
}

bool TcpSocket::is_peer_open() const {
  pollfd state{descriptor_, POLLIN | POLLRDHUP, 0};
  return ::poll(&state, 1, 0) <= 0;  // an interrupted call says nothing
}

bool TcpSocket::is_peer_silent() const {
  tcp_info info{};
  socklen_t size = sizeof(info);
  constexpr int attempts = 2;  // each of at least 200 ms
  return ::getsockopt(descriptor_, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_retransmits >= attempts;
}

void TcpSocket::end_writing() const {
  (void)::shutdown(descriptor_, SHUT_WR);
}

void TcpSocket::close() {
  if (descriptor_ >= 0) (void)::close(std::exchange(descriptor_, -1));
}

}  // namespace heddle
