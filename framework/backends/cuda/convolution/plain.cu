// Convolutions by their definition, with one thread per element of the result: for f64, and for geometries that cuDNN
// has nothing for.
#include "framework/backends/cuda/convolution/plain.h"
#include "framework/backends/cuda/device/sums.cuh"
#include "framework/scalars/windows.h"

namespace heddle::cuda {

namespace {

/// The geometry as a kernel wants it.
struct Sizes {
  explicit Sizes(const ConvolutionGeometry& geometry)
      : g(geometry),
        in(g.in_channels / g.groups),
        out(g.out_channels / g.groups),
        filter(g.kernel.height * g.kernel.width * in) {}
  ConvolutionGeometry g;
  std::int64_t in;  // channels of a group
  std::int64_t out;
  std::int64_t filter;  // elements

  __device__ std::int64_t input_row(std::int64_t i, std::int64_t tap) const {
    return input_of(i, tap, g.stride.height, g.padding.height, g.dilation.height, g.input.height);
  }
  __device__ std::int64_t input_column(std::int64_t j, std::int64_t tap) const {
    return input_of(j, tap, g.stride.width, g.padding.width, g.dilation.width, g.input.width);
  }
  __device__ std::int64_t output_row(std::int64_t h, std::int64_t tap) const {
    return output_of(h, tap, g.stride.height, g.padding.height, g.dilation.height, g.output.height);
  }
  __device__ std::int64_t output_column(std::int64_t w, std::int64_t tap) const {
    return output_of(w, tap, g.stride.width, g.padding.width, g.dilation.width, g.output.width);
  }
};

template <class T>
void forward(const Context& context, const Sizes& s, const T* x, const T* weight, T* y) {
  using C = Compute<T>;
  const std::int64_t count = s.g.batch * s.g.output.height * s.g.output.width * s.g.out_channels;
  for_each(context, count, [=] __device__(std::int64_t at) {
    const ConvolutionGeometry& g = s.g;
    const std::int64_t o = at % g.out_channels;
    const std::int64_t cell = at / g.out_channels;
    const std::int64_t j = cell % g.output.width;
    const std::int64_t i = cell / g.output.width % g.output.height;
    const std::int64_t n = cell / g.output.width / g.output.height;
    const T* const image = x + n * g.input.height * g.input.width * g.in_channels + o / s.out * s.in;
    const T* tap = weight + o * s.filter;
    C sum = 0;
    for (std::int64_t a = 0; a < g.kernel.height; ++a) {
      const std::int64_t h = s.input_row(i, a);
      for (std::int64_t b = 0; b < g.kernel.width; ++b, tap += s.in) {
        const std::int64_t w = s.input_column(j, b);
        if (h < 0 || w < 0) continue;
        const T* const from = image + (h * g.input.width + w) * g.in_channels;
        for (std::int64_t c = 0; c < s.in; ++c) sum += static_cast<C>(from[c]) * static_cast<C>(tap[c]);
      }
    }
    y[at] = static_cast<T>(sum);
  });
}

template <class T>
void backward_input(const Context& context, const Sizes& s, const T* dy, const T* weight, T* dx) {
  using C = Compute<T>;
  const std::int64_t count = s.g.batch * s.g.input.height * s.g.input.width * s.g.in_channels;
  for_each(context, count, [=] __device__(std::int64_t at) {
    const ConvolutionGeometry& g = s.g;
    const std::int64_t c = at % g.in_channels;
    const std::int64_t pixel = at / g.in_channels;
    const std::int64_t w = pixel % g.input.width;
    const std::int64_t h = pixel / g.input.width % g.input.height;
    const std::int64_t n = pixel / g.input.width / g.input.height;
    const std::int64_t first = c / s.in * s.out;  // filter of the channel's group
    const T* const cells = dy + n * g.output.height * g.output.width * g.out_channels + first;
    const T* tap = weight + first * s.filter + c % s.in;
    C sum = 0;
    for (std::int64_t a = 0; a < g.kernel.height; ++a) {
      const std::int64_t i = s.output_row(h, a);
      for (std::int64_t b = 0; b < g.kernel.width; ++b, tap += s.in) {
        const std::int64_t j = s.output_column(w, b);
        if (i < 0 || j < 0) continue;
        const T* const from = cells + (i * g.output.width + j) * g.out_channels;
        for (std::int64_t o = 0; o < s.out; ++o) sum += static_cast<C>(from[o]) * static_cast<C>(tap[o * s.filter]);
      }
    }
    dx[at] = static_cast<T>(sum);
  });
}

/// The rows of all output images are cut into parts, each of which is summed in f64.
template <class T>
void backward_weight(const Context& context, const Sizes& s, const T* x, const T* dy, T* dweight) {
  const std::int64_t rows = s.g.batch * s.g.output.height;
  const std::int64_t sums = s.g.out_channels * s.filter;
  const std::int64_t blocks = (sums + block_threads - 1) / block_threads;
  const std::int64_t parts = std::min(reduction_detail::parts_of(blocks, rows, 1),
                                      std::max<std::int64_t>(1, reduction_detail::max_partials / sums));
  double* const partial = parts > 1 ? context.scratch<double>(sums * parts) : nullptr;
  for_each(context, sums * parts, [=] __device__(std::int64_t unit) {
    const ConvolutionGeometry& g = s.g;
    const std::int64_t at = unit % sums;
    const std::int64_t part = unit / sums;
    const std::int64_t o = at / s.filter;
    const std::int64_t a = at % s.filter / s.in / g.kernel.width;
    const std::int64_t b = at % s.filter / s.in % g.kernel.width;
    const T* const inputs = x + o / s.out * s.in + at % s.in;
    double sum = 0;
    for (std::int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row) {
      const std::int64_t h = s.input_row(row % g.output.height, a);
      if (h < 0) continue;
      const T* const from = inputs + (row / g.output.height * g.input.height + h) * g.input.width * g.in_channels;
      const T* const cells = dy + row * g.output.width * g.out_channels + o;
      for (std::int64_t j = 0; j < g.output.width; ++j) {
        const std::int64_t w = s.input_column(j, b);
        if (w < 0) continue;
        sum += static_cast<double>(static_cast<Compute<T>>(cells[j * g.out_channels])) *
               static_cast<double>(static_cast<Compute<T>>(from[w * g.in_channels]));
      }
    }
    if (partial == nullptr)
      dweight[at] = static_cast<T>(static_cast<Compute<T>>(sum));
    else
      partial[at * parts + part] = sum;
  });
  if (partial == nullptr) return;
  reduction_detail::add_parts(context, sums, parts, partial, [=] __device__(std::int64_t at, double sum) {
    dweight[at] = static_cast<T>(static_cast<Compute<T>>(sum));
  });
}

}  // namespace

void plain_convolution(const Context& context, const ConvolutionGeometry& g, ConvolutionPart part, const Tensor& x,
                       const Tensor& weight, const Tensor& y) {
  const Sizes sizes(g);
  visit_floating(x.dtype(), "convolution", [&]<class T>(T) {
    switch (part) {
      case ConvolutionPart::forward:
        return forward<T>(context, sizes, x.as<T>(), weight.as<T>(), y.as<T>());
      case ConvolutionPart::backward_input:
        return backward_input<T>(context, sizes, y.as<T>(), weight.as<T>(), x.as<T>());
      case ConvolutionPart::backward_weight:
        return backward_weight<T>(context, sizes, x.as<T>(), y.as<T>(), weight.as<T>());
    }
  });
}

}  // namespace heddle::cuda
