#include "parallel/rank_clock.h"

#include <ctime>

namespace heddle {

namespace {

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

RankClock::RankClock() : start_(thread_cpu_seconds()) {}

double RankClock::busy_seconds() const {
  return thread_cpu_seconds() - start_ - communicating_;
}

Communicating::Communicating(RankClock& clock) : clock_(clock), start_(thread_cpu_seconds()) {}

Communicating::~Communicating() {
  clock_.communicating_ += thread_cpu_seconds() - start_;
}

}  // namespace heddle
