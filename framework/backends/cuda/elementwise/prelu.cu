#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/sums.cuh"
#include "framework/kernels/elementwise.h"

namespace heddle::cuda {

namespace {

template <class T>
void prelu_as(const Context& context, const Tensor& x, const Tensor& slope, Tensor& y) {
  using C = Compute<T>;
  const T* const from = x.as<const T>();
  const C* const factor = slope.as<const C>();
  T* const to = y.as<T>();
  const std::int64_t channels = slope.numel();
  for_each(context, x.numel(), [=] __device__(std::int64_t i) {
    const C v = static_cast<C>(from[i]);
    to[i] = static_cast<T>(v > C(0) ? v : factor[i % channels] * v);
  });
}

template <class T>
void prelu_slopes(const Context& context, const Tensor& x, const Tensor& dy, Tensor& dslope) {
  using C = Compute<T>;
  const T* const in = x.as<const T>();
  const T* const gradient = dy.as<const T>();
  C* const to = dslope.as<C>();
  const auto share = [=] __device__(std::int64_t i) {
    const C v = static_cast<C>(in[i]);
    return static_cast<C>(gradient[i]) * (v < C(0) ? v : C(0));
  };
  const auto write = [=] __device__(std::int64_t c, double sum) { to[c] = static_cast<C>(sum); };
  const std::int64_t channels = dslope.numel();
  if (channels == 0) return;
  if (channels == 1)
    sum_rows(
        context, 1, x.numel(), [=] __device__(std::int64_t, std::int64_t i) { return share(i); }, write);
  else
    sum_columns(
        context, 1, x.numel() / channels, channels,
        [=] __device__(std::int64_t row, std::int64_t c) { return share(row * channels + c); }, write);
}

template <class T>
void prelu_input(const Context& context, const Tensor& x, const Tensor& slope, const Tensor& dy, Tensor& dx) {
  using C = Compute<T>;
  const T* const in = x.as<const T>();
  const T* const gradient = dy.as<const T>();
  const C* const factor = slope.as<const C>();
  T* const to = dx.as<T>();
  const std::int64_t channels = slope.numel();
  for_each(context, x.numel(), [=] __device__(std::int64_t i) {
    const C g = static_cast<C>(gradient[i]);
    to[i] = static_cast<T>(static_cast<C>(in[i]) > C(0) ? g : factor[i % channels] * g);
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void ElementwiseKernelsOn<cuda::Context>::prelu(const Tensor& x, const Tensor& slope, Tensor& y) const {
  visit_floating(x.dtype(), "prelu", [&]<class T>(T) { cuda::prelu_as<T>(context_, x, slope, y); });
}

template <>
void ElementwiseKernelsOn<cuda::Context>::prelu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy,
                                                         Tensor& dx, Tensor& dslope) const {
  visit_floating(x.dtype(), "prelu", [&]<class T>(T) {
    if (dslope.defined()) cuda::prelu_slopes<T>(context_, x, dy, dslope);
    if (dx.defined()) cuda::prelu_input<T>(context_, x, slope, dy, dx);
  });
}

}  // namespace heddle
