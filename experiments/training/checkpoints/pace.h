// How fast a thread works beside the training, whose steps it should not make longer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace heddle {

/// Work in pieces, between which its thread rests: for most of the time that there is, until another thread waits for
/// the work and calls `hurry`. What the work takes from the steps, of processors, memory and the disk, is thus spread
/// over many of them.
class Pace {
 public:
  using Seconds = std::chrono::duration<double>;

  /// Before the thread begins: the work may take this long.
  void begin(Seconds available);
  /// Called by the thread after a piece; `done`: the part of the work that is done, from 0 to 1.
  void rest(double done);
  void hurry();

 private:
  using Clock = std::chrono::steady_clock;

  Seconds available_{};
  Clock::time_point begin_;       // of the work
  Clock::time_point last_begin_;  // of the piece that is worked on
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hurries_ = false;
};

}  // namespace heddle
