// What a reduction over ranks computes: several tensors of one size, in order, into one or several results.
#include <array>
#include <cstring>

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/parallel.h"
#include "framework/kernels/reduction.h"
#include "framework/tensors/dtype.h"

namespace heddle::cpu {

namespace {

constexpr std::int64_t block_bytes = 8192;  // stays in the first cache while every part is added

template <Reduction reduction, class T>
[[gnu::always_inline]] inline T combined(T a, T b) {
  using C = Compute<T>;
  const C x = static_cast<C>(a);
  const C y = static_cast<C>(b);
  if constexpr (reduction == Reduction::max)
    return static_cast<T>(y > x || y != y ? y : x);  // a NaN wins and stays
  else
    return static_cast<T>(x + y);
}

/// Two ranks: both results are written in one pass over the operands; either may be an operand.
template <Reduction reduction, class T>
void combine_pair(const T* a, const T* b, T* first, T* second, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = combined<reduction>(a[i], b[i]);
    first[i] = value;
    second[i] = value;
  }
}

template <Reduction reduction, class T>
void combine_blocks(std::span<const Tensor> parts, std::span<Tensor> results, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t block = block_bytes / static_cast<std::int64_t>(sizeof(T));
  alignas(64) std::array<T, block> total;
  for (std::int64_t at = begin; at < end; at += block) {
    const std::int64_t count = std::min(block, end - at);
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    std::memcpy(total.data(), parts[0].as<const T>() + at, bytes);
    for (const Tensor& part : parts.subspan(1)) {
      const T* const from = part.as<const T>() + at;
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i)
        total[static_cast<std::size_t>(i)] = combined<reduction>(total[static_cast<std::size_t>(i)], from[i]);
    }
    for (Tensor& result : results) std::memcpy(result.as<T>() + at, total.data(), bytes);
  }
}

template <Reduction reduction, class T>
void combine_as(std::span<const Tensor> parts, std::span<Tensor> results) {
  parallel_for(results[0].numel(), default_grain, [&](std::int64_t begin, std::int64_t end) {
    if (parts.size() == 2 && results.size() <= 2)
      combine_pair<reduction>(parts[0].as<const T>() + begin, parts[1].as<const T>() + begin,
                              results.front().as<T>() + begin, results.back().as<T>() + begin, end - begin);
    else
      combine_blocks<reduction, T>(parts, results, begin, end);
  });
}

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
void ReductionKernelsOn<cpu::Context>::combine(Reduction reduction, std::span<const Tensor> parts,
                                               std::span<Tensor> results) const {
  visit_floating(parts[0].dtype(), "combine", [&]<class T>(T) {
    if (reduction == Reduction::max)
      cpu::combine_as<Reduction::max, T>(parts, results);
    else
      cpu::combine_as<Reduction::sum, T>(parts, results);
  });
}

}  // namespace heddle
