// Lets one rank of a process compute at a time. Threads that compute side by side share caches and the units of a core,
// and so take more CPU time than each alone: a virtual clock would tell other times on another machine.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>

namespace heddle {

class ComputingTurn {
 public:
  ComputingTurn();
  /// Keeps the calling thread on the core that the turn was made on: ranks that move between cores find their values
  /// in the other's cache. Does nothing where the system forbids it.
  void stay_on_core() const;
  /// Waits for it; who came first has it first.
  void take();
  /// By who has it.
  void give_up();
  /// How many wait for it at present.
  std::size_t waiting() const;

 private:
  struct Waiter {
    std::condition_variable called;
    bool is_next = false;
  };

  int core_;
  mutable std::mutex mutex_;
  std::deque<Waiter*> waiters_;
  bool is_taken_ = false;
};

}  // namespace heddle
