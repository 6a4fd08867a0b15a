// A loop over the calling thread's OpenMP team through which exceptions pass.
#pragma once

#include <cstdint>
#include <exception>
#include <limits>

namespace heddle {

/// body(i) for i in 0 .. count-1. All of them run; then the exception of the smallest i, if any, is rethrown.
template <class Body>
void parallel_for(std::int64_t count, const Body& body) {
  std::exception_ptr first;
  std::int64_t first_index = std::numeric_limits<std::int64_t>::max();
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t i = 0; i < count; ++i) {
    try {
      body(i);
    } catch (...) {
#pragma omp critical(heddle_parallel_for)
      if (i < first_index) {
        first_index = i;
        first = std::current_exception();
      }
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace heddle
