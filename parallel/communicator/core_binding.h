// Binds threads to a core. Threads that a bound thread creates inherit this.
#pragma once

#include <sched.h>

namespace heddle {

/// The cores that the calling thread may use.
int usable_cores();

/// Binds the calling thread to a core, as sched_getcpu() numbers it. Does nothing where the system forbids it.
void bind_thread(int core);

/// Binds the calling thread to the core on which it runs, as long as the object lives. Threads that compute little
/// between two waits for each other wake each other faster on one core than on several.
class OnOneCore {
 public:
  OnOneCore();
  ~OnOneCore();
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  cpu_set_t before_{};
  bool is_bound_ = false;
};

}  // namespace heddle
