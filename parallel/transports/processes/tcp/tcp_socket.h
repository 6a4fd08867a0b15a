// Sockets of TCP over IPv4. Nothing of a connection waits but what is given a deadline. Internal to the wire of
// sockets.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace heddle {

struct TcpAddress {
  std::uint32_t host = 0;  // in network order, as is the port
  std::uint16_t port = 0;
  bool operator==(const TcpAddress&) const = default;
};
/// `10.0.0.3:29500`.
std::string to_string(const TcpAddress& address);
/// Of 127.0.0.0/8: another machine's processes would reach themselves there.
bool is_loopback(const TcpAddress& address);

/// A connection to a machine that does not answer ends after `longest_silence`, whether something is under way
/// (TCP_USER_TIMEOUT) or nothing is (keepalive). So does one to a process that for so long reads nothing of what is
/// sent to it and has filled the systems' buffers.
class TcpSocket {
 public:
  using Clock = std::chrono::steady_clock;
  using Deadline = Clock::time_point;
  static constexpr std::chrono::seconds longest_silence{60};

  TcpSocket() = default;
  /// Owns the system's socket of this number, which is one that does not wait; Error if it is none.
  explicit TcpSocket(int number);
  TcpSocket(TcpSocket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  TcpSocket& operator=(TcpSocket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~TcpSocket() { close(); }

  /// On all of this machine's addresses; port 0: any that is free. InputError if the port is not.
  static TcpSocket listen(std::uint16_t port);
  /// InputError for a host without an address.
  static TcpAddress address_of(const std::string& host, std::uint16_t port);
  /// Again and again, for the other may not listen yet; RankFailed at the deadline.
  static TcpSocket connect(const TcpAddress& address, const std::string& whom, Deadline deadline);

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }
  /// This end's address, and the other's.
  TcpAddress here() const;
  TcpAddress there() const;
  /// Who connects to a free port may be given that very port to connect from, and then reaches itself.
  bool is_with_itself() const { return here() == there(); }

  /// Who has connected meanwhile, if anybody has.
  TcpSocket accept() const;
  /// How many bytes have come, at most those asked for; nothing where no more will come.
  std::optional<std::size_t> read_some(std::span<std::byte> bytes) const;
  enum class Outcome { done, late, closed };
  Outcome read(std::span<std::byte> bytes, Deadline deadline) const;
  Outcome write(std::span<const std::byte> bytes, Deadline deadline) const;
  /// No more will be written; the other can still read what was.
  void end_writing() const;
  void close();

 private:
  int number_ = -1;
};

}  // namespace heddle
