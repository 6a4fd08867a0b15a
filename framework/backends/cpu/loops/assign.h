// Writes an element of a floating-point type.
#pragma once

#include <type_traits>

namespace heddle::cpu {

/// to = value, rounded to its type. g++ 12 does not vectorise a loop marked `omp simd` that assigns a whole struct, as
/// the 16-bit types are.
template <class T, class C>
[[gnu::always_inline]] inline void assign(T& to, C value) {
  if constexpr (std::is_floating_point_v<T>)
    to = static_cast<T>(value);
  else
    to.bits = static_cast<T>(value).bits;
}

}  // namespace heddle::cpu
