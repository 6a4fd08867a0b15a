#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/launch.cuh"
#include "framework/kernels/shape.h"

namespace heddle::cuda {

namespace {

/// y's dimensions from the last to the first with x's strides; neighbours that x also holds side by side are one.
struct Steps {
  int count = 0;
  std::int64_t size[Shape::max_rank];
  std::int64_t stride[Shape::max_rank];

  __host__ __device__ std::int64_t offset_of(std::int64_t index) const {
    std::int64_t offset = 0;
    for (int s = 0; s < count; ++s) {
      offset += index % size[s] * stride[s];
      index /= size[s];
    }
    return offset;
  }
};

Steps steps_of(const Shape& shape, std::span<const int> order) {
  Steps steps;
  for (std::size_t i = order.size(); i-- > 0;) {
    const int dimension = order[i];
    const std::int64_t size = shape[dimension];
    const std::int64_t stride = shape.product(dimension + 1, shape.rank());
    if (size == 1) continue;
    const int last = steps.count - 1;
    if (last >= 0 && stride == steps.size[last] * steps.stride[last]) {
      steps.size[last] *= size;
      continue;
    }
    steps.size[steps.count] = size;
    steps.stride[steps.count] = stride;
    ++steps.count;
  }
  return steps;
}

constexpr int tile = 32;
constexpr int tile_rows = block_threads / tile;  // that a block moves at once

/// Matrices [rows, columns] of x, one after the other -> [columns, rows] of y.
template <class Element>
__global__ void transpose_kernel(std::int64_t rows, std::int64_t columns, std::int64_t tiles, const Element* x,
                                 Element* y) {
  __shared__ Element cell[tile][tile + 1];  // one more, so that columns lie in different banks
  const std::int64_t across = (columns + tile - 1) / tile;
  const std::int64_t down = (rows + tile - 1) / tile;
  const int lane = static_cast<int>(threadIdx.x) % tile;
  const int first = static_cast<int>(threadIdx.x) / tile;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t base = t / (across * down) * rows * columns;
    const std::int64_t row = t / across % down * tile;
    const std::int64_t column = t % across * tile;
    for (int r = first; r < tile; r += tile_rows)
      if (row + r < rows && column + lane < columns) cell[r][lane] = x[base + (row + r) * columns + column + lane];
    __syncthreads();
    for (int c = first; c < tile; c += tile_rows)
      if (column + c < columns && row + lane < rows) y[base + (column + c) * rows + row + lane] = cell[lane][c];
    __syncthreads();
  }
}

template <class Element>
void transpose_as(const Context& context, const Tensor& x, const Steps& steps, Tensor& y) {
  const Element* const from = x.as<const Element>();
  Element* const to = y.as<Element>();
  // [.., rows, columns] -> [.., columns, rows]
  const bool is_matrix = steps.count >= 2 && steps.stride[1] == 1 && steps.stride[0] == steps.size[1] &&
                         (steps.count == 2 || (steps.count == 3 && steps.stride[2] == steps.size[0] * steps.size[1]));
  if (is_matrix) {
    const std::int64_t rows = steps.size[0];
    const std::int64_t columns = steps.size[1];
    const std::int64_t tiles =
        x.numel() / (rows * columns) * ((rows + tile - 1) / tile) * ((columns + tile - 1) / tile);
    launch(context, tiles, transpose_kernel<Element>, rows, columns, tiles, from, to);
    return;
  }
  for_each(context, x.numel(), [=] __device__(std::int64_t i) { to[i] = from[steps.offset_of(i)]; });
}

/// Rows of `columns` bytes, in elements as wide as they may be.
template <class Element>
void copy_blocks(const Context& context, const std::byte* x, std::int64_t x_columns, std::byte* y,
                 std::int64_t y_columns, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t size = sizeof(Element);
  const auto* const from = reinterpret_cast<const Element*>(x);
  auto* const to = reinterpret_cast<Element*>(y);
  const std::int64_t length = columns / size;
  const std::int64_t from_row = x_columns / size;
  const std::int64_t to_row = y_columns / size;
  for_each(context, rows * length, [=] __device__(std::int64_t i) {
    to[i / length * to_row + i % length] = from[i / length * from_row + i % length];
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void ShapeKernelsOn<cuda::Context>::transpose(const Tensor& x, std::span<const int> order, Tensor& y) const {
  if (x.numel() == 0) return;
  const cuda::Steps steps = cuda::steps_of(x.shape(), order);
  switch (size_of(x.dtype())) {
    case 1:
      return cuda::transpose_as<std::uint8_t>(context_, x, steps, y);
    case 2:
      return cuda::transpose_as<std::uint16_t>(context_, x, steps, y);
    case 4:
      return cuda::transpose_as<std::uint32_t>(context_, x, steps, y);
    default:
      return cuda::transpose_as<std::uint64_t>(context_, x, steps, y);
  }
}

template <>
void ShapeKernelsOn<cuda::Context>::copy_columns(const ColumnBlock& block, const Tensor& x, Tensor& y) const {
  const auto size = static_cast<std::int64_t>(size_of(x.dtype()));
  if (block.rows == 0 || block.columns == 0) return;
  const auto* const from = x.as<const std::byte>() + block.x_begin * size;
  auto* const to = y.as<std::byte>() + block.y_begin * size;
  const std::uint64_t all = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to) |
                            static_cast<std::uint64_t>(block.x_columns * size) |
                            static_cast<std::uint64_t>(block.y_columns * size) |
                            static_cast<std::uint64_t>(block.columns * size);
  const auto copy = [&]<class Element>(Element) {
    cuda::copy_blocks<Element>(context_, from, block.x_columns * size, to, block.y_columns * size, block.rows,
                               block.columns * size);
  };
  if (all % sizeof(cuda::Pack<std::uint64_t, 2>) == 0)
    copy(cuda::Pack<std::uint64_t, 2>{});
  else if (all % sizeof(std::uint32_t) == 0)
    copy(std::uint32_t{});
  else if (all % sizeof(std::uint16_t) == 0)
    copy(std::uint16_t{});
  else
    copy(std::uint8_t{});
}

}  // namespace heddle
