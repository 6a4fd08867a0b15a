#include "experiments/training/checkpoints/pace.h"

#include <algorithm>

namespace heddle {

void Pace::begin(Seconds available) {
  available_ = available;
  begin_ = last_begin_ = Clock::now();
  const std::lock_guard lock(mutex_);
  hurries_ = false;
}

void Pace::rest(double done) {
  constexpr double max_rest = 15;  // times as long as the piece took
  const Clock::time_point now = Clock::now();
  const Seconds rest = std::min(max_rest * Seconds(now - last_begin_), done * available_ - Seconds(now - begin_));
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, rest, [this] { return hurries_; });
  last_begin_ = Clock::now();
}

void Pace::hurry() {
  {
    const std::lock_guard lock(mutex_);
    hurries_ = true;
  }
  changed_.notify_all();
}

}  // namespace heddle
