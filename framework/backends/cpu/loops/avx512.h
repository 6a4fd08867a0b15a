// Whether code for AVX-512, which the build does not require, can run on this processor.
#pragma once

namespace heddle::cpu {

#if defined(__x86_64__)
inline const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0;
#else
inline constexpr bool has_avx512 = false;
#endif

}  // namespace heddle::cpu
