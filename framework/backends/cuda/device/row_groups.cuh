// Rows of some hundred elements: several share a block, each held in registers by a group of its threads, so that the
// memory is read and written once. Longer rows, and all of f64, have a block each. Rows have fewer than 2^31 elements.
#pragma once

#include <bit>

#include "framework/backends/cuda/device/row_teams.cuh"

namespace heddle::cuda {

/// The elements of a row that a thread holds.
inline constexpr int held = 16;

/// The threads that have a row.
struct RowGroup {
  int threads;  // a power of two, 16 at least: their elements are those of a multiple of sixteen blocks of draws
  int member;

  /// A row may then be longer than what the group holds at once.
  __device__ bool is_block() const { return threads == block_threads; }
  /// How many rounds it takes to see this many elements.
  __device__ int turns(int elements) const {
    return is_block() ? (elements + held * block_threads - 1) / (held * block_threads) : 1;
  }

  /// All groups of a block call it together.
  template <class T, class Op>
  __device__ T reduce(T value, Op op) const {
    if (is_block()) return block_reduce(value, op);
    // Exchanged sums are the same to the bit for all.
    for (int distance = (threads < warp_threads ? threads : warp_threads) / 2; distance > 0; distance /= 2)
      value = op(value, row_detail::of_other_lane(value, distance));
    if (threads <= warp_threads) return value;
    __shared__ T of_warp[block_threads / warp_threads];
    if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = value;
    __syncthreads();
    const int first = static_cast<int>(threadIdx.x) / threads * (threads / warp_threads);
    T all = of_warp[first];
    for (int i = 1; i < threads / warp_threads; ++i) all = op(all, of_warp[first + i]);
    __syncthreads();  // before the next call writes
    return all;
  }
  __device__ double sum(double value) const {
    return reduce(value, [](double a, double b) { return a + b; });
  }
};

/// How many threads hold a row of this many elements of C.
template <class C>
int group_threads(int columns) {
  if (sizeof(C) > sizeof(float) || columns > held * block_threads / 2) return block_threads;
  constexpr int min_threads = 16;
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max((columns + held - 1) / held, min_threads))));
}

/// The sum of f(x[i]..) over a row of a block, for all of its threads. Sums of f64 have the order of the row kernels,
/// because a step must give the bits of their gradients: the order of a warp, where each warp of the block computes the
/// whole sum, or that of a block. Sums of f32 are formed in f64, which has bits to spare.
template <class C, class F, class... Inputs>
__device__ double sum_of_block(int columns, F f, const Inputs*... x) {
  if constexpr (std::is_same_v<C, double>) {
    const Stretches row{1, columns, columns};
    const auto value = [&](std::int64_t, const auto&... values) { return f(values...); };
    return columns <= max_columns_of_warp ? RowTeam<warp_threads>(row, 0).sum(value, x...)
                                          : RowTeam<block_threads>(row, 0).sum(value, x...);
  } else {
    return row_sum(0, columns, [&](std::int64_t i) { return f(static_cast<C>(x[i])...); });
  }
}

/// Registers are to suffice for two blocks at once, which keep the memory busy.
template <class F>
__global__ void __launch_bounds__(block_threads, 2) for_each_row_group_kernel(std::int64_t rows, int threads, F f) {
  const int groups = block_threads / threads;
  const int index = static_cast<int>(threadIdx.x);
  for (std::int64_t first = std::int64_t{blockIdx.x} * groups; first < rows;
       first += std::int64_t{gridDim.x} * groups) {
    const std::int64_t row = first + index / threads;
    f(row < rows ? row : -1, RowGroup{threads, index % threads});
  }
}

/// f(row, group) for 0 <= row < rows, called by all threads of a row's group, and of a block, together; by the groups
/// that have no row with -1.
template <class F>
void for_each_row_group(const Context& context, std::int64_t rows, int threads, F f) {
  const int groups = block_threads / threads;
  if (rows > 0) launch(context, (rows + groups - 1) / groups, for_each_row_group_kernel<F>, rows, threads, f);
}

/// Which elements of a row a thread holds: pairs of neighbours, 32 apart, so that neighbouring threads have
/// neighbouring pairs, and so that one Philox block has the rounding draws of four of them
/// (framework/scalars/rounding.h).
struct Place {
  static constexpr int pairs = held / 2;

  int first;        // of the pairs; from some place before the row on
  int columns;      // of the row; 0 if there is none
  bool are_packed;  // pairs are aligned, and all of a pair is in the row or none

  /// The `turn`-th of a group over a row that begins `lead` elements after a multiple of 128.
  __device__ static Place of(const RowGroup& group, int turn, int lead, int columns, bool are_packed) {
    const int unit = turn * group.threads + group.member;
    return {unit / 16 * (16 * held) + unit % 16 * 2 - lead, columns, are_packed};
  }
  /// Where in the row the e-th of them is.
  __device__ int at(int e) const { return first + 32 * (e / 2) + e % 2; }
  __device__ bool contains(int i) const { return i >= 0 && i < columns; }

  /// The elements of a row as values of C; zeros where it has none.
  template <class C, class T>
  __device__ void load(const T* row, C (&values)[held]) const {
    for (int pair = 0; pair < pairs; ++pair) {
      const int i = first + 32 * pair;
      Pack<T, 2> two{};
      if (are_packed) {
        if (contains(i)) two = *reinterpret_cast<const Pack<T, 2>*>(row + i);
      } else {
        for (int e = 0; e < 2; ++e)
          if (contains(i + e)) two.at[e] = row[i + e];
      }
      for (int e = 0; e < 2; ++e) values[2 * pair + e] = static_cast<C>(two.at[e]);
    }
  }

  /// row[i] = value(e) for the elements that the row has.
  template <class T, class Value>
  __device__ void store(T* row, Value value) const {
    for (int pair = 0; pair < pairs; ++pair) {
      const int i = first + 32 * pair;
      const Pack<T, 2> two{{value(2 * pair), value(2 * pair + 1)}};
      if (are_packed) {
        if (contains(i)) *reinterpret_cast<Pack<T, 2>*>(row + i) = two;
      } else {
        for (int e = 0; e < 2; ++e)
          if (contains(i + e)) row[i + e] = two.at[e];
      }
    }
  }
};

}  // namespace heddle::cuda
