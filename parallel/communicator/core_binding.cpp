#include "parallel/communicator/core_binding.h"

#include <cstddef>

#include <unistd.h>

namespace heddle {

int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

void bind_thread(int core) {
  if (core < 0 || core >= CPU_SETSIZE) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<std::size_t>(core), &cores);
  (void)sched_setaffinity(0, sizeof(cores), &cores);
}

OnOneCore::OnOneCore() : is_bound_(sched_getaffinity(0, sizeof(before_), &before_) == 0) {
  if (is_bound_) bind_thread(sched_getcpu());
}

OnOneCore::~OnOneCore() {
  if (is_bound_) (void)sched_setaffinity(0, sizeof(before_), &before_);
}

}  // namespace heddle
