// Writing memory that is not read soon, without reading it into the cache first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace heddle::cpu {

/// Copies elements past the cache where their places in memory allow it. Other threads may read them after this one has
/// called `finish_writes_past_cache`.
template <class T>
void write_past_cache(T* to, const T* from, std::int64_t elements) {
#ifdef __AVX__
  constexpr std::size_t vector = sizeof(__m256i);
  const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(T);
  if (reinterpret_cast<std::uintptr_t>(to) % vector == 0 && bytes % vector == 0) {
    auto* const target = reinterpret_cast<__m256i*>(to);
    const auto* const source = reinterpret_cast<const __m256i*>(from);
    for (std::size_t i = 0; i < bytes / vector; ++i) _mm256_stream_si256(target + i, _mm256_loadu_si256(source + i));
    return;
  }
#endif
  std::copy_n(from, elements, to);
}

inline void finish_writes_past_cache() {
#ifdef __AVX__
  _mm_sfence();
#endif
}

}  // namespace heddle::cpu
