// Where processes come in: of each connection it must be found out who made it. Anybody may connect, and may say
// nothing, or anything; nobody waits for such. Internal to the wire of sockets.
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

/// What processes of this program say first to each other, in its own representation.
struct TcpPreamble {
  std::array<char, 8> program{'h', 'e', 'd', 'd', 'l', 'e', ' ', 'w'};
  /// Changes with greetings and with the frames of the wire.
  std::uint32_t protocol = 2;

  bool is_of_this_program() const { return program == TcpPreamble().program; }
  bool is_of_this_protocol() const { return protocol == TcpPreamble().protocol; }
};

/// What a process says of itself when it connects.
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
  /// Who has not said by then who it is, is a stranger.
  static constexpr std::chrono::seconds patience{2};

  /// Who comes to this socket, which outlives this.
  explicit TcpListener(const TcpSocket& listening) : listening_(listening) {}

  struct Incoming {
    TcpSocket socket;
    TcpHello hello;
  };
  /// The next that says hello as this program does, whatever it says then; nothing at the deadline. RankFailed when the
  /// other side of one of `known`, which are in the order of ranks and may be closed here, closes its end.
  std::optional<Incoming> next(std::span<const TcpSocket> known, Deadline deadline);

 private:
  /// One that has not said all of its hello.
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
