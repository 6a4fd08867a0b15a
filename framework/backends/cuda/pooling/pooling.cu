// Pooling of NHWC images, with one thread per pack of channels of the result. Backward gathers: an input pixel adds up
// what the windows that see it give, in their order.
#include <limits>

#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/channels.cuh"
#include "framework/kernels/pooling.h"
#include "framework/scalars/windows.h"

namespace heddle::cuda {

namespace {

template <class T>
inline constexpr int pool_pack = 16 / static_cast<int>(sizeof(T));

struct Cell {
  __device__ Cell(const PoolGeometry& g, std::int64_t row, std::int64_t column)
      : h(row, g.kernel.height, g.stride.height, g.padding.height, g.input.height),
        w(column, g.kernel.width, g.stride.width, g.padding.width, g.input.width),
        divisor(g.count_padding ? h.padded * w.padded : (h.end - h.begin) * (w.end - w.begin)) {}
  PoolWindow h;
  PoolWindow w;
  std::int64_t divisor;
};

/// A place in NHWC images of this extent.
struct Place {
  __device__ Place(std::int64_t index, std::int64_t packs, int pack, const Extent& extent)
      : channel(index % packs * pack),
        column(index / packs % extent.width),
        row(index / packs / extent.width % extent.height),
        image(index / packs / extent.width / extent.height) {}
  std::int64_t channel;
  std::int64_t column;
  std::int64_t row;
  std::int64_t image;
};

/// The outputs along one dimension whose windows see an input.
struct Seen {
  __device__ Seen(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t out)
      : begin(in + padding < kernel ? 0 : (in + padding - kernel) / stride + 1),
        end(std::min(out, (in + padding) / stride + 1)) {}
  std::int64_t begin;
  std::int64_t end;
};

template <class T, int pack>
void max_forward(const Context& context, const PoolGeometry& g, const T* x, T* y, std::int32_t* choice) {
  using C = Compute<T>;
  const std::int64_t packs = g.channels / pack;
  for_each(context, g.batch * g.output.height * g.output.width * packs, [=] __device__(std::int64_t index) {
    const Place at(index, packs, pack, g.output);
    const Cell cell(g, at.row, at.column);
    const T* const image = x + at.image * g.input.height * g.input.width * g.channels + at.channel;
    C top[pack];
    Pack<std::int32_t, pack> where;
    for (int e = 0; e < pack; ++e) {
      top[e] = -std::numeric_limits<C>::infinity();
      where.at[e] = static_cast<std::int32_t>(cell.h.begin * g.input.width + cell.w.begin);
    }
    for (std::int64_t h = cell.h.begin; h < cell.h.end; ++h)
      for (std::int64_t w = cell.w.begin; w < cell.w.end; ++w) {
        const std::int64_t pixel = h * g.input.width + w;
        const auto in = load<pack>(image + pixel * g.channels);
        for (int e = 0; e < pack; ++e) {
          const C value = static_cast<C>(in.at[e]);
          if (!(value > top[e] || value != value)) continue;  // a NaN wins, so that it is seen
          top[e] = value;
          where.at[e] = static_cast<std::int32_t>(pixel);
        }
      }
    Pack<T, pack> out;
    for (int e = 0; e < pack; ++e) out.at[e] = static_cast<T>(top[e]);
    store(y + index * pack, out);
    if (choice != nullptr) store(choice + index * pack, where);
  });
}

template <class T, int pack>
void average_forward(const Context& context, const PoolGeometry& g, const T* x, T* y) {
  using C = Compute<T>;
  const std::int64_t packs = g.channels / pack;
  for_each(context, g.batch * g.output.height * g.output.width * packs, [=] __device__(std::int64_t index) {
    const Place at(index, packs, pack, g.output);
    const Cell cell(g, at.row, at.column);
    const T* const image = x + at.image * g.input.height * g.input.width * g.channels + at.channel;
    C sums[pack] = {};
    for (std::int64_t h = cell.h.begin; h < cell.h.end; ++h)
      for (std::int64_t w = cell.w.begin; w < cell.w.end; ++w) {
        const auto in = load<pack>(image + (h * g.input.width + w) * g.channels);
        for (int e = 0; e < pack; ++e) sums[e] += static_cast<C>(in.at[e]);
      }
    const C share = C(1) / static_cast<C>(cell.divisor);
    Pack<T, pack> out;
    for (int e = 0; e < pack; ++e) out.at[e] = static_cast<T>(sums[e] * share);
    store(y + index * pack, out);
  });
}

template <class T, int pack>
void max_backward(const Context& context, const PoolGeometry& g, const T* dy, const std::int32_t* choice, T* dx) {
  using C = Compute<T>;
  const std::int64_t packs = g.channels / pack;
  for_each(context, g.batch * g.input.height * g.input.width * packs, [=] __device__(std::int64_t index) {
    const Place at(index, packs, pack, g.input);
    const auto pixel = static_cast<std::int32_t>(at.row * g.input.width + at.column);
    const Seen rows(at.row, g.kernel.height, g.stride.height, g.padding.height, g.output.height);
    const Seen columns(at.column, g.kernel.width, g.stride.width, g.padding.width, g.output.width);
    const std::int64_t image = at.image * g.output.height * g.output.width * g.channels + at.channel;
    C sums[pack] = {};
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const std::int64_t out = image + (row * g.output.width + column) * g.channels;
        const auto gradient = load<pack>(dy + out);
        const auto chosen = load<pack>(choice + out);
        for (int e = 0; e < pack; ++e)
          if (chosen.at[e] == pixel) sums[e] += static_cast<C>(gradient.at[e]);
      }
    Pack<T, pack> result;
    for (int e = 0; e < pack; ++e) result.at[e] = static_cast<T>(sums[e]);
    store(dx + index * pack, result);
  });
}

template <class T, int pack>
void average_backward(const Context& context, const PoolGeometry& g, const T* dy, T* dx) {
  using C = Compute<T>;
  const std::int64_t packs = g.channels / pack;
  for_each(context, g.batch * g.input.height * g.input.width * packs, [=] __device__(std::int64_t index) {
    const Place at(index, packs, pack, g.input);
    const Seen rows(at.row, g.kernel.height, g.stride.height, g.padding.height, g.output.height);
    const Seen columns(at.column, g.kernel.width, g.stride.width, g.padding.width, g.output.width);
    const std::int64_t image = at.image * g.output.height * g.output.width * g.channels + at.channel;
    C sums[pack] = {};
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const C share = C(1) / static_cast<C>(Cell(g, row, column).divisor);
        const auto gradient = load<pack>(dy + image + (row * g.output.width + column) * g.channels);
        for (int e = 0; e < pack; ++e) sums[e] += static_cast<C>(gradient.at[e]) * share;
      }
    Pack<T, pack> result;
    for (int e = 0; e < pack; ++e) result.at[e] = static_cast<T>(sums[e]);
    store(dx + index * pack, result);
  });
}

/// f(the most channels that these addresses allow to be taken at once).
template <class T, class F>
void visit_pack(const PoolGeometry& g, const T* from, const T* to, const std::int32_t* choice, F&& f) {
  if (is_packable<pool_pack<T>>(g.channels, from, to, choice))
    f(std::integral_constant<int, pool_pack<T>>());
  else
    f(std::integral_constant<int, 1>());
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void PoolingKernelsOn<cuda::Context>::pool(PoolOp op, const PoolGeometry& g, const Tensor& x, Tensor& y,
                                           Tensor& choice) const {
  visit_floating(x.dtype(), "pool", [&]<class T>(T) {
    std::int32_t* const chosen = cuda::data_or_null<std::int32_t>(choice);
    cuda::visit_pack(g, x.as<T>(), y.as<T>(), chosen, [&]<class Size>(Size) {
      if (op == PoolOp::average)
        cuda::average_forward<T, Size::value>(context_, g, x.as<T>(), y.as<T>());
      else
        cuda::max_forward<T, Size::value>(context_, g, x.as<T>(), y.as<T>(), chosen);
    });
  });
}

template <>
void PoolingKernelsOn<cuda::Context>::pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy,
                                                    const Tensor& choice, Tensor& dx) const {
  visit_floating(dy.dtype(), "pool_backward", [&]<class T>(T) {
    const std::int32_t* const chosen = cuda::data_or_null<std::int32_t>(choice);
    cuda::visit_pack(g, dy.as<T>(), dx.as<T>(), chosen, [&]<class Size>(Size) {
      if (op == PoolOp::average)
        cuda::average_backward<T, Size::value>(context_, g, dy.as<T>(), dx.as<T>());
      else
        cuda::max_backward<T, Size::value>(context_, g, dy.as<T>(), chosen, dx.as<T>());
    });
  });
}

}  // namespace heddle
