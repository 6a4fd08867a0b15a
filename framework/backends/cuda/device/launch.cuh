// How kernels are written here: a function object is called for every index, for every element or for every row. Grids
// are as large as the work, up to a bound; beyond it threads take several indices each.
#pragma once

#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include "framework/backends/cuda/context.h"
#include "framework/tensors/dtype.h"
#include "framework/tensors/tensor.h"

namespace heddle::cuda {

inline constexpr int block_threads = 256;
/// Some blocks for each multiprocessor of the largest GPUs.
inline constexpr std::int64_t max_blocks = 4096;

/// `blocks` > 0; at most max_blocks are launched.
template <class... Parameters, class... Arguments>
void launch(const Context& context, std::int64_t blocks, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(std::min(blocks, max_blocks)));
  config.blockDim = dim3(block_threads);
  config.stream = context.stream();
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "cudaLaunchKernelEx");
}

template <class F>
__global__ void for_each_kernel(std::int64_t count, F f) {
  const std::int64_t stride = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x; i < count; i += stride) f(i);
}

/// f(i) for 0 <= i < count, with one thread for each i.
template <class F>
void for_each(const Context& context, std::int64_t count, F f) {
  if (count > 0) launch(context, (count + block_threads - 1) / block_threads, for_each_kernel<F>, count, f);
}

template <int blocks, class F>
__global__ void __launch_bounds__(block_threads, blocks) for_each_row_kernel(std::int64_t rows, F f) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) f(row);
}

/// f(row) for 0 <= row < rows, called by all threads of a block together: it takes elements threadIdx.x, threadIdx.x +
/// block_threads, .. of the row (`for_row`), and may call what is in block.cuh. Registers suffice for so many blocks at
/// once: several keep the memory busy.
template <int blocks = 1, class F>
void for_each_row(const Context& context, std::int64_t rows, F f) {
  if (rows > 0) launch(context, rows, for_each_row_kernel<blocks, F>, rows, f);
}

/// f(i) for the calling thread's share of begin <= i < end, within for_each_row.
template <class F>
__device__ void for_row(std::int64_t begin, std::int64_t end, F f) {
  for (std::int64_t i = begin + threadIdx.x; i < end; i += block_threads) f(i);
}

/// Elements that a thread reads and writes at once: 16 bytes of the narrowest type.
template <class T, int count>
struct alignas(sizeof(T) * count) Pack {
  T at[count];
};

/// Elements `at[0]` to `at[pack - 1]`, which are aligned as a Pack.
template <int pack, class T>
__device__ Pack<T, pack> load(const T* at) {
  return *reinterpret_cast<const Pack<T, pack>*>(at);
}
template <class T, int pack>
__device__ void store(T* at, const Pack<T, pack>& values) {
  *reinterpret_cast<Pack<T, pack>*>(at) = values;
}

/// Whether this many elements at x may be read or written at once; null is none.
template <int pack, class T>
__host__ __device__ bool is_pack(const T* x) {
  return reinterpret_cast<std::uintptr_t>(x) % (pack * sizeof(T)) == 0;
}
/// The same for all rows of this many elements.
template <int pack, class... T>
bool is_packable(std::int64_t columns, const T*... data) {
  return columns % pack == 0 && (... && is_pack<pack>(data));
}

/// use(i, read(i)) for i = first, first + step, .. below `end`. `batch` values are read before the first of them is
/// used, so that a thread waits for memory less often.
template <int batch, class Read, class Use>
__device__ void for_each_ahead(std::int64_t first, std::int64_t end, std::int64_t step, Read read, Use use) {
  for (std::int64_t i = first; i < end; i += batch * step) {
    decltype(read(i)) values[batch] = {};
    for (int b = 0; b < batch; ++b)
      if (i + b * step < end) values[b] = read(i + b * step);
    for (int b = 0; b < batch; ++b)
      if (i + b * step < end) use(i + b * step, values[b]);
  }
}

template <int pack, class T, class F, class... Inputs>
__global__ void map_kernel(std::int64_t count, T* y, F f, const Inputs*... inputs) {
  const std::int64_t stride = std::int64_t{gridDim.x} * block_threads;
  const std::int64_t first = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  const auto one = [&](const auto&... x) { return static_cast<T>(f(static_cast<Compute<Inputs>>(x)...)); };
  // By value: through a reference elements would be read one by one.
  const auto several = [&](const auto... x) {
    Pack<T, pack> out;
    for (int e = 0; e < pack; ++e) out.at[e] = one(x.at[e]...);
    return out;
  };
  const std::int64_t packs = count / pack;
  for (std::int64_t i = first; i < packs; i += stride)
    reinterpret_cast<Pack<T, pack>*>(y)[i] = several(reinterpret_cast<const Pack<Inputs, pack>*>(inputs)[i]...);
  for (std::int64_t i = packs * pack + first; i < count; i += stride) y[i] = one(inputs[i]...);
}

/// y[i] = f(x[i]..), each x widened to its compute type and the result rounded to T. y may be one of the inputs.
template <class T, class F, class... Inputs>
void map(const Context& context, std::int64_t count, T* y, F f, const Inputs*... inputs) {
  if (count == 0) return;
  constexpr int pack = 16 / static_cast<int>(std::max({sizeof(T), sizeof(Inputs)...}));
  const std::int64_t blocks = (count + block_threads * pack - 1) / (block_threads * pack);
  if ((is_pack<pack>(y) && ... && is_pack<pack>(inputs)))
    launch(context, blocks, map_kernel<pack, T, F, Inputs...>, count, y, f, inputs...);
  else
    launch(context, blocks * pack, map_kernel<1, T, F, Inputs...>, count, y, f, inputs...);
}

/// The elements of a tensor that may be undefined: then null.
template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.as<T>() : nullptr;
}

}  // namespace heddle::cuda
