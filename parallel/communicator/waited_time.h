// The duration of a wait, without time in which the process was stopped (SIGSTOP, a suspended machine). When a stopped
// process continues, its waits seem long, although ranks that were stopped with it had no time to respond.
#pragma once

#include <algorithm>
#include <chrono>

namespace heddle {

/// The waiting rank calls `look` often; a gap between two calls counts as at most `max_gap`.
class WaitedTime {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WaitedTime(Clock::duration max_gap, Clock::time_point now = Clock::now()) : max_gap_(max_gap), last_(now) {}

  /// The time that has passed so far.
  Clock::duration look(Clock::time_point now = Clock::now()) {
    passed_ += std::clamp(now - last_, Clock::duration::zero(), max_gap_);
    last_ = now;
    return passed_;
  }

 private:
  Clock::duration max_gap_;
  Clock::time_point last_;
  Clock::duration passed_{};
};

}  // namespace heddle
