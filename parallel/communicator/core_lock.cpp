#include "parallel/communicator/core_lock.h"

#include <sched.h>

#include "parallel/communicator/core_binding.h"

namespace heddle {

CoreLock::CoreLock() : core_(sched_getcpu()) {}

void CoreLock::pin_thread() const {
  bind_thread(core_);
}

void CoreLock::lock() {
  std::unique_lock lock(mutex_);
  if (!is_locked_) {
    is_locked_ = true;
    return;
  }
  Waiter me;
  waiters_.push_back(&me);
  me.granted.wait(lock, [&me] { return me.is_next; });
}

void CoreLock::unlock() {
  const std::lock_guard lock(mutex_);
  if (waiters_.empty()) {
    is_locked_ = false;
    return;
  }
  // The lock is handed over, so that no thread that calls `lock` now overtakes the waiter. The notification is sent
  // with the mutex held, because the waiter is destroyed when its wait ends.
  Waiter& next = *waiters_.front();
  waiters_.pop_front();
  next.is_next = true;
  next.granted.notify_one();
}

std::size_t CoreLock::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiters_.size();
}

}  // namespace heddle
