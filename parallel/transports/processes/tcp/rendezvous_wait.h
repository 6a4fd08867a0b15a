// How long a rendezvous waits for other processes. Internal to the wire of sockets.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

/// The times of a wait that begins now: it is reported once, after `report_after`, and over after `timeout`.
class RendezvousWait {
 public:
  RendezvousWait(std::chrono::milliseconds timeout, std::chrono::milliseconds report_after)
      : deadline_(TcpSocket::Clock::now() + timeout),
        next_stop_(std::min(deadline_, TcpSocket::Clock::now() + report_after)) {}

  TcpSocket::Deadline deadline() const { return deadline_; }
  bool is_over() const { return TcpSocket::Clock::now() >= deadline_; }
  /// Until when to wait: then the wait is to be reported, or it is over.
  TcpSocket::Deadline next_stop() const { return next_stop_; }
  /// To be called at `next_stop`: whether the wait is to be reported, and then continues. Otherwise it is over.
  bool must_report() { return std::exchange(next_stop_, deadline_) != deadline_; }

 private:
  TcpSocket::Deadline deadline_;
  TcpSocket::Deadline next_stop_;
};

}  // namespace heddle
