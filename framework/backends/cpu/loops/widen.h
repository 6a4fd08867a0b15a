// Between 16-bit elements and f32, for machines and kernels that compute in f32 only.
#pragma once

#include <cstdint>

#include "framework/backends/cpu/loops/parallel.h"
#include "framework/tensors/tensor.h"

namespace heddle::cpu {

inline void widen(const Tensor& from, float* to) {
  visit_floating(from.dtype(), "widen", [&]<class T>(T) {
    const T* const source = from.as<T>();
    parallel_for(from.numel(), default_grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(source[i]);
    });
  });
}

inline void narrow(const float* from, Tensor& to) {
  visit_floating(to.dtype(), "narrow", [&]<class T>(T) {
    T* const target = to.as<T>();
    parallel_for(to.numel(), default_grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) target[i] = static_cast<T>(from[i]);
    });
  });
}

}  // namespace heddle::cpu
