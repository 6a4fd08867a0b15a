// Accepts the connections of other processes, and identifies the process that made each. Any program may connect, and
// may send nothing or anything; nothing waits for such a connection. Internal to the wire of sockets.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/transports/processes/tcp/handshake.h"
#include "parallel/transports/processes/tcp/job_secret.h"
#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

/// What a process sends about itself after the handshake.
struct TcpHello {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::int32_t restarts = 0;  // of the process's job
  std::int16_t is_elastic = 0;
  std::int16_t was_started_again = 0;
  std::uint64_t call_checksum = 0;  // of an elastic process, as in its Launch
  std::uint64_t job = 0;            // a number that rank 0 draws; 0 in the hello of a process that does not know it yet
  TcpAddress address;               // where it listens; a host of 0 is the one from which it connects
  std::array<char, 64> machine{};

  std::string machine_name() const;
};

class TcpListener {
 public:
  using Deadline = TcpSocket::Deadline;
  /// A connection that has not finished its handshake within this time is closed.
  static constexpr std::chrono::seconds handshake_timeout{2};
  /// The time in which a process that knows the secret sends its hello: on a busy machine it may not run for a while.
  static constexpr std::chrono::seconds hello_timeout{10};
  /// So many connections may be without a hello. Then the oldest that has not finished its handshake within
  /// `crowded_timeout` is closed for a new one; others wait in the system's queue.
  static constexpr std::size_t max_pending = 128;
  static constexpr std::chrono::milliseconds crowded_timeout{100};

  /// Accepts connections to this socket from processes that know the secret. Both outlive the listener.
  TcpListener(const TcpSocket& listening, const JobSecret& secret) : listening_(listening), secret_(secret) {}

  struct Incoming {
    TcpSocket socket;
    TcpHello hello;
  };
  /// The next connection of a process that knows the secret, whatever its hello says; nothing at the deadline.
  /// RankFailed when the peer of one of `known`, which are in the order of ranks and may be closed here, closes its
  /// end.
  std::optional<Incoming> next(std::span<const TcpSocket> known, Deadline deadline);

  /// Records that a process was turned away, and why: `it is rank 5 of 4`.
  void record_rejection(const TcpAddress& from, std::string_view why);
  /// The last process of this program that was turned away: `; a process at 10.0.0.3:29500 was turned away: it does not
  /// know this job's HEDDLE_JOB_SECRET`. Empty if there was none.
  const std::string& last_rejection() const { return last_rejection_; }

 private:
  /// A connection that has not sent all of its hello.
  struct Pending {
    TcpSocket socket;
    Deadline since;
    Deadline end = since + handshake_timeout;
    AcceptingHandshake handshake{};
    bool is_proved = false;
    TcpHello hello{};
    std::size_t read = 0;
    bool is_readable = true;
  };

  using State = AcceptingHandshake::State;

  std::optional<Incoming> progress_pending(Deadline now);
  State progress(Pending& pending);
  /// The first that has not finished its handshake.
  std::vector<Pending>::iterator oldest_unproved();
  /// When `accept` can accept again.
  Deadline next_accept(Deadline now);
  bool wait(std::span<const TcpSocket> known, Deadline deadline);
  void accept();

  const TcpSocket& listening_;
  const JobSecret& secret_;
  std::vector<Pending> pending_;  // oldest first
  std::string last_rejection_;
};

}  // namespace heddle
