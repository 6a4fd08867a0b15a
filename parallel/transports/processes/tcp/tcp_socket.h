// TCP sockets over IPv4. Only functions with a deadline wait. Internal to the wire of sockets.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
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
/// `10.0.0.3`, of a host in network order.
std::string host_text(std::uint32_t host);
/// `10.0.0.3:29500`.
std::string to_string(const TcpAddress& address);
/// Whether a call that failed with this error (errno) may succeed later.
bool is_temporary(int error);
/// Whether the address is in 127.0.0.0/8, where processes of another machine would reach themselves.
bool is_loopback(const TcpAddress& address);

/// A connection to a machine that does not answer ends after `max_silence`, whether data is under way
/// (TCP_USER_TIMEOUT) or not (keepalive). So does a connection to a process that reads nothing for this time while the
/// buffers of both systems are full.
class TcpSocket {
 public:
  using Clock = std::chrono::steady_clock;
  using Deadline = Clock::time_point;
  static constexpr std::chrono::seconds max_silence{60};

  TcpSocket() = default;
  /// Owns this file descriptor of a non-blocking socket; Error if it is negative.
  explicit TcpSocket(int descriptor);
  TcpSocket(TcpSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  TcpSocket& operator=(TcpSocket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~TcpSocket() { close(); }

  /// Listens at this address of the machine, in network order, or at all of them (0); port 0: any free port. InputError
  /// if the port is not free.
  static TcpSocket listen(std::uint16_t port, std::uint32_t host = 0);
  /// The IPv4 address of a host; InputError if it has none.
  static TcpAddress resolve(const std::string& host, std::uint16_t port);
  /// Tries repeatedly, because the peer may not listen yet; RankFailed at the deadline, with the last error. `peer` is
  /// its name in that error: `rank 0 at node7:29500`.
  static TcpSocket connect(const TcpAddress& address, const std::string& peer, Deadline deadline);

  /// One attempt; closed if the peer has not accepted by the deadline.
  static TcpSocket try_connect(const TcpAddress& address, Deadline deadline);

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  /// The addresses of this end and of the peer.
  TcpAddress local_address() const;
  TcpAddress peer_address() const;
  /// A process that connects to a free port may be given that very port to connect from, and then reaches itself.
  bool is_with_itself() const { return local_address() == peer_address(); }

  /// The next connection, if a process has connected meanwhile.
  TcpSocket accept() const;
  /// The number of bytes read, at most those that `bytes` holds; nothing if no more will arrive.
  std::optional<std::size_t> read_some(std::span<std::byte> bytes) const;
  enum class Outcome { done, late, closed };
  Outcome read(std::span<std::byte> bytes, Deadline deadline) const;
  Outcome write(std::span<const std::byte> bytes, Deadline deadline) const;
  /// Waits until the peer has sent something or has ended, and until the deadline at most; false if it is cancelled
  /// first, which is asked several times a second.
  bool wait_for_reply(Deadline deadline, const std::function<bool()>& is_cancelled) const;
  /// False once the peer has ended, as far as is known, or sent something.
  bool is_peer_open() const;
  /// Whether the peer's system has not acknowledged for a while what was sent to it.
  bool is_peer_silent() const;
  /// Ends writing; the peer can still read what was written.
  void end_writing() const;
  void close();

 private:
  int descriptor_ = -1;
};

}  // namespace heddle
