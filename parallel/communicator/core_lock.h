// A fair lock under which one rank of a process computes at a time. Threads that compute side by side share caches and
// the execution units of a core, and so need more CPU time than each would alone: without the lock a virtual clock
// would report different times on a different machine.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>

namespace heddle {

class CoreLock {
 public:
  CoreLock();
  /// Binds the calling thread to the core on which the lock was made: ranks that move between cores find their values
  /// in the other core's cache. Does nothing where the system forbids it.
  void pin_thread() const;
  /// Waits for the lock, which goes to waiting threads in the order of their calls.
  void lock();
  /// To be called by the thread that holds the lock.
  void unlock();
  /// The number of threads that wait in `lock` at present.
  std::size_t waiting() const;

 private:
  struct Waiter {
    std::condition_variable granted;
    bool is_next = false;
  };

  int core_;
  mutable std::mutex mutex_;
  std::deque<Waiter*> waiters_;
  bool is_locked_ = false;
};

}  // namespace heddle
