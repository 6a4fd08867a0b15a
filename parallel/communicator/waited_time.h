// How long a wait has lasted, less the time in which this process could not wait at all: one that was stopped (SIGSTOP,
// a suspended machine) wakes to waits that seem long, and others that were stopped with it have had no time to come.
#pragma once

#include <algorithm>
#include <chrono>

namespace heddle {

/// Asked often by who waits: a gap between two looks that is longer than `longest_gap` counts as that.
class WaitedTime {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WaitedTime(Clock::duration longest_gap, Clock::time_point now = Clock::now())
      : longest_gap_(longest_gap), last_(now) {}

  /// The time that has passed.
  Clock::duration look(Clock::time_point now = Clock::now()) {
    passed_ += std::clamp(now - last_, Clock::duration::zero(), longest_gap_);
    last_ = now;
    return passed_;
  }

 private:
  Clock::duration longest_gap_;
  Clock::time_point last_;
  Clock::duration passed_{};
};

}  // namespace heddle
