// How long a rank's thread computed: its CPU time outside communicators. The thread teams of OpenMP and of oneDNN are
// other threads and not seen; runs that need exact figures use one thread a rank.
#pragma once

namespace heddle {

/// Made, asked and told by the rank's own thread.
class RankClock {
 public:
  RankClock();
  double busy_seconds() const;

 private:
  friend class Communicating;
  double start_;
  double communicating_ = 0;
};

/// What the thread spends while this lives is communication.
class Communicating {
 public:
  explicit Communicating(RankClock& clock);
  ~Communicating();
  Communicating(const Communicating&) = delete;
  Communicating& operator=(const Communicating&) = delete;

 private:
  RankClock& clock_;
  double start_;
};

}  // namespace heddle
