#include "framework/backends/cpu/convolution/plain.h"

#include <algorithm>

#include "framework/backends/cpu/loops/parallel.h"
#include "framework/scalars/windows.h"

namespace heddle::cpu {

namespace {

template <class T>
T dot(const T* a, const T* b, std::int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <class T>
void add_scaled(T factor, const T* x, T* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

struct Sizes {
  explicit Sizes(const ConvolutionGeometry& g)
      : in(g.in_channels / g.groups), out(g.out_channels / g.groups), taps(g.kernel.height * g.kernel.width) {}
  std::int64_t in;
  std::int64_t out;
  std::int64_t taps;
  /// Rows of an image that make a piece of work worth a thread.
  std::int64_t grain(std::int64_t width) const {
    return std::max<std::int64_t>(1, 100000 / std::max<std::int64_t>(1, width * taps * in * out));
  }
};

}  // namespace

template <class T>
void plain_forward(const ConvolutionGeometry& g, const T* x, const T* weight, T* y) {
  const Sizes sizes(g);
  parallel_for(g.batch * g.output.height, sizes.grain(g.output.width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t n = row / g.output.height;
      for (std::int64_t column = 0; column < g.output.width; ++column) {
        T* const cell = y + (row * g.output.width + column) * g.out_channels;
        std::fill_n(cell, g.out_channels, T{0});
        for (std::int64_t tap = 0; tap < sizes.taps; ++tap) {
          const std::int64_t h = input_of(row % g.output.height, tap / g.kernel.width, g.stride.height,
                                          g.padding.height, g.dilation.height, g.input.height);
          const std::int64_t w =
              input_of(column, tap % g.kernel.width, g.stride.width, g.padding.width, g.dilation.width, g.input.width);
          if (h < 0 || w < 0) continue;
          const T* const source = x + ((n * g.input.height + h) * g.input.width + w) * g.in_channels;
          for (std::int64_t o = 0; o < g.out_channels; ++o)
            cell[o] += dot(source + o / sizes.out * sizes.in, weight + (o * sizes.taps + tap) * sizes.in, sizes.in);
        }
      }
    }
  });
}

template <class T>
void plain_backward_input(const ConvolutionGeometry& g, const T* dy, const T* weight, T* dx) {
  const Sizes sizes(g);
  parallel_for(g.batch * g.input.height, sizes.grain(g.input.width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t n = row / g.input.height;
      for (std::int64_t column = 0; column < g.input.width; ++column) {
        T* const cell = dx + (row * g.input.width + column) * g.in_channels;
        std::fill_n(cell, g.in_channels, T{0});
        for (std::int64_t tap = 0; tap < sizes.taps; ++tap) {
          const std::int64_t h = output_of(row % g.input.height, tap / g.kernel.width, g.stride.height,
                                           g.padding.height, g.dilation.height, g.output.height);
          const std::int64_t w = output_of(column, tap % g.kernel.width, g.stride.width, g.padding.width,
                                           g.dilation.width, g.output.width);
          if (h < 0 || w < 0) continue;
          const T* const source = dy + ((n * g.output.height + h) * g.output.width + w) * g.out_channels;
          for (std::int64_t o = 0; o < g.out_channels; ++o)
            add_scaled(source[o], weight + (o * sizes.taps + tap) * sizes.in, cell + o / sizes.out * sizes.in,
                       sizes.in);
        }
      }
    }
  });
}

template <class T>
void plain_backward_weight(const ConvolutionGeometry& g, const T* x, const T* dy, T* dweight) {
  const Sizes sizes(g);
  const std::int64_t filter = sizes.taps * sizes.in;
  std::fill_n(dweight, g.out_channels * filter, T{0});
  // By filters: every sum belongs to one thread and runs in the same order for any number of them.
  parallel_for(g.out_channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < g.batch * g.output.height; ++row) {
      const std::int64_t n = row / g.output.height;
      for (std::int64_t column = 0; column < g.output.width; ++column) {
        const T* const cell = dy + (row * g.output.width + column) * g.out_channels;
        for (std::int64_t tap = 0; tap < sizes.taps; ++tap) {
          const std::int64_t h = input_of(row % g.output.height, tap / g.kernel.width, g.stride.height,
                                          g.padding.height, g.dilation.height, g.input.height);
          const std::int64_t w =
              input_of(column, tap % g.kernel.width, g.stride.width, g.padding.width, g.dilation.width, g.input.width);
          if (h < 0 || w < 0) continue;
          const T* const source = x + ((n * g.input.height + h) * g.input.width + w) * g.in_channels;
          for (std::int64_t o = begin; o < end; ++o)
            add_scaled(cell[o], source + o / sizes.out * sizes.in, dweight + o * filter + tap * sizes.in, sizes.in);
        }
      }
    }
  });
}

template void plain_forward(const ConvolutionGeometry&, const float*, const float*, float*);
template void plain_forward(const ConvolutionGeometry&, const double*, const double*, double*);
template void plain_backward_input(const ConvolutionGeometry&, const float*, const float*, float*);
template void plain_backward_input(const ConvolutionGeometry&, const double*, const double*, double*);
template void plain_backward_weight(const ConvolutionGeometry&, const float*, const float*, float*);
template void plain_backward_weight(const ConvolutionGeometry&, const double*, const double*, double*);

}  // namespace heddle::cpu
