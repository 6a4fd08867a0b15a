#include "framework/kernels/shape.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/parallel.h"
#include "framework/error.h"

namespace heddle::cpu {

namespace {

struct TransposeStep {
  std::int64_t size;
  std::int64_t stride;  // in x's elements
};

/// y's dimensions with x's strides; neighbours that x also holds side by side are one.
std::vector<TransposeStep> transpose_steps(const Shape& shape, std::span<const int> order) {
  std::vector<TransposeStep> steps;
  for (const int dimension : order) {
    const TransposeStep step{shape[dimension], shape.product(dimension + 1, shape.rank())};
    if (step.size == 1) continue;
    if (!steps.empty() && steps.back().stride == step.size * step.stride) {
      steps.back().size *= step.size;
      steps.back().stride = step.stride;
    } else {
      steps.push_back(step);
    }
  }
  if (steps.empty()) steps.push_back({1, 1});
  return steps;
}

/// Where `index` in row-major order of `steps` lies in x.
std::int64_t offset_of(std::span<const TransposeStep> steps, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t i = steps.size(); i-- > 0;) {
    offset += index % steps[i].size * steps[i].stride;
    index /= steps[i].size;
  }
  return offset;
}

/// y's last dimension walks x with a stride. x's own last dimension is some earlier one of y: tiles of both.
template <class Element>
void transpose_tiles(const Element* x, std::vector<TransposeStep> steps, Element* y) {
  constexpr std::int64_t tile = 16;
  const TransposeStep columns = steps.back();
  const auto contiguous =
      std::find_if(steps.begin(), steps.end(), [](const TransposeStep& s) { return s.stride == 1; });
  const TransposeStep rows = *contiguous;
  std::int64_t row_stride = 1;  // of `rows` in y
  for (auto step = contiguous + 1; step != steps.end(); ++step) row_stride *= step->size;
  std::vector<TransposeStep> outer;
  std::vector<TransposeStep> outer_in_y;
  std::int64_t in_y = 1;
  for (std::size_t i = steps.size(); i-- > 0; in_y *= steps[i].size)
    if (steps[i].stride != 1 && i + 1 != steps.size()) {
      outer.insert(outer.begin(), steps[i]);
      outer_in_y.insert(outer_in_y.begin(), {steps[i].size, in_y});
    }
  std::int64_t outer_count = 1;
  for (const TransposeStep& step : outer) outer_count *= step.size;
  const std::int64_t strips = (rows.size + tile - 1) / tile;
  parallel_for(outer_count * strips, 1 + default_grain / (tile * columns.size),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t unit = begin; unit < end; ++unit) {
                   const std::int64_t first = unit % strips * tile;
                   const std::int64_t last = std::min(first + tile, rows.size);
                   const Element* const from = x + offset_of(outer, unit / strips);
                   Element* const to = y + offset_of(outer_in_y, unit / strips);
                   for (std::int64_t c0 = 0; c0 < columns.size; c0 += tile)
                     for (std::int64_t r = first; r < last; ++r)
                       for (std::int64_t c = c0; c < std::min(c0 + tile, columns.size); ++c)
                         to[r * row_stride + c] = from[c * columns.stride + r];
                 }
               });
}

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
void ShapeKernelsOn<cpu::Context>::transpose(const Tensor& x, std::span<const int> order, Tensor& y) const {
  if (x.numel() == 0) return;
  std::vector<cpu::TransposeStep> steps = cpu::transpose_steps(x.shape(), order);
  const auto size = static_cast<std::int64_t>(size_of(x.dtype()));
  if (steps.back().stride == 1) {
    const std::int64_t length = steps.back().size * size;
    steps.pop_back();
    std::int64_t blocks = 1;
    for (const cpu::TransposeStep& step : steps) blocks *= step.size;
    const auto* const from = x.as<const std::byte>();
    auto* const to = y.as<std::byte>();
    cpu::parallel_for(blocks, 1 + 4 * cpu::default_grain / length, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        std::memcpy(to + b * length, from + cpu::offset_of(steps, b) * size, static_cast<std::size_t>(length));
    });
    return;
  }
  switch (size) {
    case 1:
      return cpu::transpose_tiles(x.as<const std::uint8_t>(), std::move(steps), y.as<std::uint8_t>());
    case 2:
      return cpu::transpose_tiles(x.as<const std::uint16_t>(), std::move(steps), y.as<std::uint16_t>());
    case 4:
      return cpu::transpose_tiles(x.as<const std::uint32_t>(), std::move(steps), y.as<std::uint32_t>());
    default:
      return cpu::transpose_tiles(x.as<const std::uint64_t>(), std::move(steps), y.as<std::uint64_t>());
  }
}

template <>
void ShapeKernelsOn<cpu::Context>::copy_columns(const ColumnBlock& block, const Tensor& x, Tensor& y) const {
  const auto size = static_cast<std::int64_t>(size_of(x.dtype()));
  const auto* const from = x.as<const std::byte>() + block.x_begin * size;
  auto* const to = y.as<std::byte>() + block.y_begin * size;
  const std::int64_t length = block.columns * size;
  if (length == 0) return;
  cpu::parallel_for(block.rows, 1 + 4 * cpu::default_grain / length, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      std::memcpy(to + r * block.y_columns * size, from + r * block.x_columns * size, static_cast<std::size_t>(length));
  });
}

}  // namespace heddle
