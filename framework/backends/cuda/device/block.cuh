// What the threads of a block compute together. All of them call these functions, and all get the result.
#pragma once

#include <limits>

#include <cub/block/block_reduce.cuh>

#include "framework/backends/cuda/device/launch.cuh"
#include "framework/scalars/scalar.h"

namespace heddle::cuda {

/// `op(a, b)` over the threads' values, in an order that depends on nothing else.
template <class T, class Op>
__device__ T block_reduce(T value, Op op) {
  using Reduce = cub::BlockReduce<T, block_threads>;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ T result;
  const T reduced = Reduce(storage).Reduce(value, op);
  if (threadIdx.x == 0) result = reduced;
  __syncthreads();
  const T all = result;
  __syncthreads();  // before the next call writes
  return all;
}

template <class T>
__device__ T block_sum(T value) {
  return block_reduce(value, [](T a, T b) { return a + b; });
}

/// The larger; a NaN wins and stays.
template <class T>
__device__ T larger(T a, T b) {
  return b > a || b != b ? b : a;
}

template <class T>
__device__ T block_max(T value) {
  return block_reduce(value, [](T a, T b) { return larger(a, b); });
}

// Over the elements value(i) of a row, begin <= i < end, within for_each_row.

/// Sums in f64.
template <class F>
__device__ double row_sum(std::int64_t begin, std::int64_t end, F value) {
  double sum = 0;
  for_row(begin, end, [&](std::int64_t i) { sum += static_cast<double>(value(i)); });
  return block_sum(sum);
}

/// -inf if there are no elements.
template <class C, class F>
__device__ C row_max(std::int64_t begin, std::int64_t end, F value) {
  C maximum = -std::numeric_limits<C>::infinity();
  for_row(begin, end, [&](std::int64_t i) { maximum = larger(maximum, value(i)); });
  return block_max(maximum);
}

}  // namespace heddle::cuda
