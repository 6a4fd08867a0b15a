#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/launch.cuh"
#include "framework/backends/cuda/rows/indices.h"
#include "framework/kernels/rows.h"

namespace heddle::cuda {

namespace {

/// Elements of one row of the leading dimension.
std::int64_t row_elements(const Tensor& x) {
  return x.shape().product(1, x.shape().rank());
}

/// Rows of `bytes`, in elements as wide as they may be.
template <class Element>
void gather_as(const Context& context, const std::byte* x, const Tensor& index, std::int64_t rows, std::int64_t bytes,
               std::byte* y) {
  const auto* const from = reinterpret_cast<const Element*>(x);
  auto* const to = reinterpret_cast<Element*>(y);
  const std::int64_t* const at = index.as<const std::int64_t>();
  const std::int64_t length = bytes / static_cast<std::int64_t>(sizeof(Element));
  for_each(context, index.numel() * length, [=] __device__(std::int64_t i) {
    const std::int64_t row = at[i / length];
    if (row >= 0 && row < rows) to[i] = from[row * length + i % length];
  });
}

/// The matrix that rows are added to.
template <class T>
struct Sums {
  T* at;
  std::int64_t rows;
  std::int64_t columns;
};

/// Adds those of x's rows whose places leave `group` when divided by `groups`, in order; one thread per column.
template <class T>
__device__ void add_group(const T* x, const std::int64_t* index, std::int64_t count, const Sums<T>& y,
                          std::int64_t column, std::int64_t group, std::int64_t groups) {
  using C = Compute<T>;
  constexpr int warp = 32;
  __shared__ std::int64_t place[block_threads];
  __shared__ unsigned of_group[block_threads / warp];  // a bit for each place
  for (std::int64_t begin = 0; begin < count; begin += block_threads) {
    const std::int64_t mine = begin + threadIdx.x < count ? index[begin + threadIdx.x] : -1;
    const bool is_of_group = mine >= 0 && mine < y.rows && mine % groups == group;
    const unsigned bits = __ballot_sync(~0U, is_of_group);
    place[threadIdx.x] = mine;
    if (threadIdx.x % warp == 0) of_group[threadIdx.x / warp] = bits;
    __syncthreads();
    if (column < y.columns)
      for (int w = 0; w < block_threads / warp; ++w)
        for (unsigned rest = of_group[w]; rest != 0; rest &= rest - 1) {
          const int i = w * warp + __ffs(static_cast<int>(rest)) - 1;
          T& sum = y.at[place[i] * y.columns + column];
          sum = static_cast<T>(static_cast<C>(sum) + static_cast<C>(x[(begin + i) * y.columns + column]));
        }
    __syncthreads();  // before the next are written
  }
}

/// Every block walks all of the index and takes a group of the places: so each sum keeps its order, and as many blocks
/// as keep a GPU busy work at once.
template <class T>
void scatter_add_as(const Context& context, const Tensor& x, const Tensor& index, Tensor& y) {
  constexpr std::int64_t wanted = 512;
  const T* const from = x.as<const T>();
  const std::int64_t* const at = index.as<const std::int64_t>();
  const Sums<T> sums{y.as<T>(), y.shape()[0], row_elements(y)};
  const std::int64_t count = index.numel();
  if (count == 0 || sums.rows == 0 || sums.columns == 0) return;
  const std::int64_t stretches = (sums.columns + block_threads - 1) / block_threads;
  const std::int64_t groups = std::clamp<std::int64_t>(wanted / stretches, 1, std::min(sums.rows, count));
  for_each_row(context, groups * stretches, [=] __device__(std::int64_t unit) {
    add_group(from, at, count, sums, unit % stretches * block_threads + threadIdx.x, unit / stretches, groups);
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void RowKernelsOn<cuda::Context>::gather(const Tensor& x, const Tensor& index, Tensor& y) const {
  const std::int64_t rows = x.shape()[0];
  cuda::check_indices(context_, cuda::Fault::Of::gather, index.as<const std::int64_t>(), index.numel(), rows);
  const std::int64_t bytes = cuda::row_elements(x) * static_cast<std::int64_t>(size_of(x.dtype()));
  if (bytes == 0) return;
  const auto* const from = x.as<const std::byte>();
  auto* const to = y.as<std::byte>();
  const std::uint64_t all =
      reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to) | static_cast<std::uint64_t>(bytes);
  const auto gather_by = [&]<class Element>(Element) {
    cuda::gather_as<Element>(context_, from, index, rows, bytes, to);
  };
  if (all % sizeof(cuda::Pack<std::uint64_t, 2>) == 0)
    gather_by(cuda::Pack<std::uint64_t, 2>{});
  else if (all % sizeof(std::uint32_t) == 0)
    gather_by(std::uint32_t{});
  else if (all % sizeof(std::uint16_t) == 0)
    gather_by(std::uint16_t{});
  else
    gather_by(std::uint8_t{});
}

template <>
void RowKernelsOn<cuda::Context>::scatter_add(const Tensor& x, const Tensor& index, Tensor& y) const {
  cuda::check_indices(context_, cuda::Fault::Of::scatter, index.as<const std::int64_t>(), index.numel(), y.shape()[0]);
  visit_floating(x.dtype(), "scatter_rows", [&]<class T>(T) { cuda::scatter_add_as<T>(context_, x, index, y); });
}

}  // namespace heddle
