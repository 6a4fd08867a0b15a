// Random draws of the elements of a tensor that a window places in the whole one. The values are those of
// framework/scalars/scalar.h for the elements' global indices.
#pragma once

#include "framework/backends/cuda/device/launch.cuh"
#include "framework/scalars/scalar.h"

namespace heddle::cuda {

/// Uniform in (0, 1).
struct UniformDraws {
  using Value = float;
  static constexpr int of_block = 4;
  static __device__ float at(const PhiloxBlock& block, std::uint64_t element) { return uniform_draw(block, element); }
};
/// Standard normal deviates.
struct NormalDraws {
  using Value = double;
  static constexpr int of_block = 2;
  static __device__ double at(const PhiloxBlock& block, std::uint64_t element) { return normal_draw(block, element); }
};

/// The whole tensor's index of element i of a block.
__device__ inline std::int64_t element_at(const DrawWindow& window, std::int64_t i) {
  const std::int64_t row = i < window.run ? 0 : i / window.run;
  return window.first + i + row * (window.stride - window.run);
}

/// x[0] .. x[length - 1], in one access where there are `size`.
template <int size, class T>
__device__ Pack<T, size> load_some(const T* x, int length) {
  if (length == size && is_pack<size>(x)) return load<size>(x);
  Pack<T, size> values{};
  for (int e = 0; e < size; ++e)
    if (e < length) values.at[e] = x[e];
  return values;
}
template <int size, class T>
__device__ void store_some(T* x, const Pack<T, size>& values, int length) {
  if (length == size && is_pack<size>(x)) return store(x, values);
  for (int e = 0; e < size; ++e)
    if (e < length) x[e] = values.at[e];
}

/// body(i, draws, length) for elements i .. i + length - 1 of 0 .. count - 1: all that draw from one Philox block, if
/// the window's runs begin and end where blocks do; else one at a time.
template <class Draws, class Body>
void for_each_draw(const Context& context, std::int64_t count, const DrawKey& key, const DrawWindow& window,
                   Body body) {
  constexpr int size = Draws::of_block;
  using Values = Pack<typename Draws::Value, size>;
  const PhiloxBlock words = purpose_key(key.key, key.purpose);
  const bool has_whole_blocks =
      window.first % size == 0 && (window.run >= count || (window.run % size == 0 && window.stride % size == 0));
  if (has_whole_blocks)
    for_each(context, (count + size - 1) / size, [=] __device__(std::int64_t b) {
      const std::int64_t i = b * size;
      const auto element = static_cast<std::uint64_t>(element_at(window, i));
      const PhiloxBlock block = draw_block(words, key, element / size);
      Values draws;
      for (int e = 0; e < size; ++e) draws.at[e] = Draws::at(block, static_cast<std::uint64_t>(e));
      body(i, draws, count - i < size ? static_cast<int>(count - i) : size);
    });
  else
    for_each(context, count, [=] __device__(std::int64_t i) {
      const auto element = static_cast<std::uint64_t>(element_at(window, i));
      Values draws{};
      draws.at[0] = Draws::at(draw_block(words, key, element / size), element);
      body(i, draws, 1);
    });
}

}  // namespace heddle::cuda
