#include "parallel/communicator/core_lock.h"

#include <sched.h>

namespace heddle {

ComputingTurn::ComputingTurn() : core_(sched_getcpu()) {}

void ComputingTurn::stay_on_core() const {
  if (core_ < 0 || core_ >= CPU_SETSIZE) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<std::size_t>(core_), &cores);
  (void)sched_setaffinity(0, sizeof(cores), &cores);
}

void ComputingTurn::take() {
  std::unique_lock lock(mutex_);
  if (!is_taken_) {
    is_taken_ = true;
    return;
  }
  Waiter me;
  waiters_.push_back(&me);
  me.called.wait(lock, [&me] { return me.is_next; });
}

void ComputingTurn::give_up() {
  const std::lock_guard lock(mutex_);
  if (waiters_.empty()) {
    is_taken_ = false;
    return;
  }
  // Handed over: nobody who comes now goes before. Within the mutex, for the waiter ends with its wait.
  Waiter& next = *waiters_.front();
  waiters_.pop_front();
  next.is_next = true;
  next.called.notify_one();
}

std::size_t ComputingTurn::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiters_.size();
}

}  // namespace heddle
