// Accepts the connections of other processes, and identifies the process that made each. Any program may connect, and
// may send nothing or anything; nothing waits for such a connection. Internal to the wire of sockets.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

/// The first bytes that processes of this program send to each other, in the representation of the machine.
struct TcpPreamble {
  std::array<char, 8> program{'h', 'e', 'd', 'd', 'l', 'e', ' ', 'w'};
  /// Changes with these structs and with the frames of the wire.
  std::uint32_t protocol = 2;

  bool is_of_this_program() const { return program == TcpPreamble().program; }
  bool is_of_this_protocol() const { return protocol == TcpPreamble().protocol; }
};

/// What a process sends about itself when it connects.
struct TcpHello {
  TcpPreamble preamble;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  TcpAddress address;  // where it listens
  std::array<char, 64> machine{};

  std::string machine_name() const;
};

class TcpListener {
 public:
  using Deadline = TcpSocket::Deadline;
  /// A connection that has not sent its hello within this time is closed.
  static constexpr std::chrono::seconds patience{2};

  /// Accepts connections to this socket, which outlives the listener.
  explicit TcpListener(const TcpSocket& listening) : listening_(listening) {}

  struct Incoming {
    TcpSocket socket;
    TcpHello hello;
  };
  /// The next connection that sends a hello of this program, whatever the hello says; nothing at the deadline.
  /// RankFailed when the peer of one of `known`, which are in the order of ranks and may be closed here, closes its
  /// end.
  std::optional<Incoming> next(std::span<const TcpSocket> known, Deadline deadline);

 private:
  /// A connection that has not sent all of its hello.
  struct Pending {
    TcpSocket socket;
    Deadline until;
    TcpHello hello{};
    std::size_t read = 0;
  };

  static bool is_to_reject(Pending& pending);
  void wait(std::span<const TcpSocket> known, Deadline deadline) const;

  const TcpSocket& listening_;
  std::vector<Pending> pending_;
};

}  // namespace heddle
