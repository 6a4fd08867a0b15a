// Pooling of NHWC images: vectorised over channels, with one output row as a piece of work.
#include "framework/kernels/pooling.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/assign.h"
#include "framework/backends/cpu/loops/parallel.h"
#include "framework/scalars/windows.h"

namespace heddle::cpu {

namespace {

struct Cell {
  Cell(const PoolGeometry& g, std::int64_t row, std::int64_t column)
      : image(row / g.output.height * g.input.height * g.input.width),
        h(row % g.output.height, g.kernel.height, g.stride.height, g.padding.height, g.input.height),
        w(column, g.kernel.width, g.stride.width, g.padding.width, g.input.width),
        divisor(g.count_padding ? h.padded * w.padded : (h.end - h.begin) * (w.end - w.begin)) {}
  std::int64_t image;  // first pixel of the sample
  PoolWindow h;
  PoolWindow w;
  std::int64_t divisor;
};

/// Calls f(pixel index within the image) for each pixel in a cell's window.
template <class F>
void each_pixel(const Cell& cell, std::int64_t width, F&& f) {
  for (std::int64_t h = cell.h.begin; h < cell.h.end; ++h)
    for (std::int64_t w = cell.w.begin; w < cell.w.end; ++w) f(h * width + w);
}

std::int64_t row_grain(const PoolGeometry& g) {
  return std::max<std::int64_t>(
      1, 32768 / std::max<std::int64_t>(1, g.output.width * g.kernel.height * g.kernel.width * g.channels));
}

template <class T>
void max_forward(const PoolGeometry& g, const T* x, T* y, std::int32_t* choice) {
  using C = Compute<T>;
  parallel_for(g.batch * g.output.height, row_grain(g), [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> best(static_cast<std::size_t>(g.channels));
    std::vector<std::int32_t> where(static_cast<std::size_t>(g.channels));
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t column = 0; column < g.output.width; ++column) {
        const Cell cell(g, row, column);
        const std::int64_t out = (row * g.output.width + column) * g.channels;
        const auto first = static_cast<std::int32_t>(cell.h.begin * g.input.width + cell.w.begin);
        std::fill(best.begin(), best.end(), -std::numeric_limits<C>::infinity());
        std::fill(where.begin(), where.end(), first);
        C* const top = best.data();
        std::int32_t* const at = where.data();
        each_pixel(cell, g.input.width, [&](std::int64_t pixel) {
          const T* const from = x + (cell.image + pixel) * g.channels;
          const auto index = static_cast<std::int32_t>(pixel);
#pragma omp simd
          for (std::int64_t c = 0; c < g.channels; ++c) {
            const C value = static_cast<C>(from[c]);
            // A NaN wins, so that it is seen.
            const bool wins = value > top[c] || value != value;
            at[c] = wins ? index : at[c];
            top[c] = wins ? value : top[c];
          }
        });
        for (std::int64_t c = 0; c < g.channels; ++c) y[out + c] = static_cast<T>(top[c]);
        if (choice != nullptr) std::copy(where.begin(), where.end(), choice + out);
      }
  });
}

template <class T>
void average_forward(const PoolGeometry& g, const T* x, T* y) {
  using C = Compute<T>;
  parallel_for(g.batch * g.output.height, row_grain(g), [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> sums(static_cast<std::size_t>(g.channels));
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t column = 0; column < g.output.width; ++column) {
        const Cell cell(g, row, column);
        T* const to = y + (row * g.output.width + column) * g.channels;
        std::fill(sums.begin(), sums.end(), C{0});
        C* const sum = sums.data();
        each_pixel(cell, g.input.width, [&](std::int64_t pixel) {
          const T* const from = x + (cell.image + pixel) * g.channels;
#pragma omp simd
          for (std::int64_t c = 0; c < g.channels; ++c) sum[c] += static_cast<C>(from[c]);
        });
        const C share = C{1} / static_cast<C>(cell.divisor);
        for (std::int64_t c = 0; c < g.channels; ++c) assign(to[c], sum[c] * share);
      }
  });
}

/// By images: windows overlap, and a pixel's sum belongs to one thread. Sums in the compute type; `add` takes one
/// output cell's gradient to the image's gradient.
template <class T, class Add>
void backward_by_images(const PoolGeometry& g, T* dx, const Add& add) {
  using C = Compute<T>;
  const std::int64_t image = g.input.height * g.input.width * g.channels;
  parallel_for(g.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> wide(std::is_same_v<T, C> ? 0 : static_cast<std::size_t>(image));
    for (std::int64_t n = begin; n < end; ++n) {
      C* sums = nullptr;
      if constexpr (std::is_same_v<T, C>) {
        sums = dx + n * image;
      } else {
        sums = wide.data();
      }
      std::fill_n(sums, image, C{0});
      for (std::int64_t row = n * g.output.height; row < (n + 1) * g.output.height; ++row)
        for (std::int64_t column = 0; column < g.output.width; ++column) add(row, column, sums);
      if constexpr (!std::is_same_v<T, C>)
        std::transform(wide.begin(), wide.end(), dx + n * image, [](C value) { return static_cast<T>(value); });
    }
  });
}

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
void PoolingKernelsOn<cpu::Context>::pool(PoolOp op, const PoolGeometry& g, const Tensor& x, Tensor& y,
                                          Tensor& choice) const {
  const cpu::ThreadTeam team(context_.threads());
  visit_floating(x.dtype(), "pool", [&]<class T>(T) {
    if (op == PoolOp::average) return cpu::average_forward(g, x.as<T>(), y.as<T>());
    cpu::max_forward(g, x.as<T>(), y.as<T>(), choice.defined() ? choice.as<std::int32_t>() : nullptr);
  });
}

template <>
void PoolingKernelsOn<cpu::Context>::pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy,
                                                   const Tensor& choice, Tensor& dx) const {
  const cpu::ThreadTeam team(context_.threads());
  visit_floating(dy.dtype(), "pool_backward", [&]<class T>(T) {
    using C = Compute<T>;
    const T* const gradients = dy.as<T>();
    if (op == PoolOp::max) {
      const std::int32_t* const chosen = choice.as<std::int32_t>();
      cpu::backward_by_images(g, dx.as<T>(), [&](std::int64_t row, std::int64_t column, C* sums) {
        const std::int64_t out = (row * g.output.width + column) * g.channels;
        for (std::int64_t c = 0; c < g.channels; ++c)
          sums[chosen[out + c] * g.channels + c] += static_cast<C>(gradients[out + c]);
      });
      return;
    }
    cpu::backward_by_images(g, dx.as<T>(), [&](std::int64_t row, std::int64_t column, C* sums) {
      const cpu::Cell cell(g, row, column);
      const T* const gradient = gradients + (row * g.output.width + column) * g.channels;
      const C share = C{1} / static_cast<C>(cell.divisor);
      cpu::each_pixel(cell, g.input.width, [&](std::int64_t pixel) {
        C* const to = sums + pixel * g.channels;
#pragma omp simd
        for (std::int64_t c = 0; c < g.channels; ++c) to[c] += static_cast<C>(gradient[c]) * share;
      });
    });
  });
}

}  // namespace heddle
