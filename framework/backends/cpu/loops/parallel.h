// Loops over the rank's thread team. The team's size is that of the calling thread (`Backend::enter_thread`).
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include <omp.h>

namespace heddle::cpu {

/// Elements that are worth a thread where each takes a few operations: about 10 us of memory traffic.
inline constexpr std::int64_t default_grain = 16384;

/// Calls body(begin, end) for contiguous pieces of 0 .. count-1, each of at least `grain` elements (what is worth a
/// thread) if there is more than one. Serial within another parallel region. Where the cuts fall depends on the number
/// of threads: a sum must therefore not be formed over pieces, but over fixed blocks, of which each piece takes some.
/// The first exception is rethrown when all pieces are done.
template <class F>
void parallel_for(std::int64_t count, std::int64_t grain, F&& body) {
  if (count <= 0) return;
  const std::int64_t worthwhile = count / std::max<std::int64_t>(grain, 1);
  const std::int64_t pieces = omp_in_parallel() != 0 ? 1 : std::min<std::int64_t>(worthwhile, omp_get_max_threads());
  if (pieces < 2) {
    body(std::int64_t{0}, count);
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel num_threads(static_cast <int>(pieces))
  {
    const std::int64_t team = omp_get_num_threads();
    const std::int64_t member = omp_get_thread_num();
    try {
      const std::int64_t begin = count * member / team;
      const std::int64_t end = count * (member + 1) / team;
      if (begin < end) body(begin, end);
    } catch (...) {
#pragma omp critical(heddle_parallel_for)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// The calling thread's team has `threads` members while this lives.
class ThreadTeam {
 public:
  explicit ThreadTeam(int threads) : before_(omp_get_max_threads()) {
    if (threads != before_) omp_set_num_threads(threads);
  }
  ~ThreadTeam() {
    if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
  }
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

 private:
  int before_;
};

}  // namespace heddle::cpu
