// Sockets of TCP over IPv4, as far as joining a job needs them: calls wait until a deadline. Internal to the wire of
// sockets.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace heddle {

struct TcpAddress {
  std::uint32_t host = 0;  // in network order, as is the port
  std::uint16_t port = 0;
};

class TcpSocket {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  TcpSocket() = default;
  TcpSocket(TcpSocket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  TcpSocket& operator=(TcpSocket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~TcpSocket() { close(); }

  /// On all of this machine's addresses; port 0: any that is free. InputError if the port is not.
  static TcpSocket listen(std::uint16_t port, int backlog);
  /// InputError for a host without an address.
  static TcpAddress address_of(const std::string& host, std::uint16_t port);
  /// Again and again, for the other may not listen yet; RankFailed at the deadline.
  static TcpSocket connect(const TcpAddress& address, const std::string& whom, Deadline deadline);

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }
  /// In network order.
  std::uint16_t port() const;
  std::uint32_t host_of_peer() const;
  /// No socket at the deadline.
  TcpSocket accept(Deadline deadline) const;
  /// False at the deadline, or where the other has closed.
  bool read(std::span<std::byte> bytes, Deadline deadline) const;
  bool write(std::span<const std::byte> bytes, Deadline deadline) const;
  void close();

 private:
  explicit TcpSocket(int number);

  int number_ = -1;
};

}  // namespace heddle
