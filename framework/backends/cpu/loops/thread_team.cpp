#include "framework/backends/cpu/loops/thread_team.h"

#include <latch>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <omp.h>

#include "framework/error.h"

namespace heddle::cpu {

namespace {

/// The number of threads, up to `wanted`, that the system starts for this process now; they have ended on return.
int startable_threads(int wanted) {
  std::latch all_started(1);
  std::vector<std::jthread> threads;
  try {
    while (static_cast<int>(threads.size()) < wanted) threads.emplace_back([&] { all_started.wait(); });
  } catch (const std::system_error&) {  // no more
  }
  all_started.count_down();
  return static_cast<int>(threads.size());
}

}  // namespace

void start_thread_team(int threads) {
  omp_set_num_threads(threads);
  if (threads < 2) return;
  // The ranks of a process do not take each other's threads between the question and the start.
  static std::mutex one_asks;
  const std::lock_guard lock(one_asks);
  if (const int started = 1 + startable_threads(threads - 1); started < threads)
    fail<OutOfMemory>(
        "cpu: the system starts only {} of this rank's {} computing threads, perhaps because of a limit (ulimit -v, "
        "ulimit -u)",
        started, threads);
#pragma omp parallel num_threads(threads)
  {}
}

}  // namespace heddle::cpu
