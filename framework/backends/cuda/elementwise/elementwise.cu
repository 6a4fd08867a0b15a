#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/launch.cuh"
#include "framework/kernels/elementwise.h"
#include "framework/scalars/scalar.h"

namespace heddle::cuda {

namespace {

template <class T>
void fill_as(const Context& context, Tensor& y, T value) {
  T* const to = y.as<T>();
  for_each(context, y.numel(), [=] __device__(std::int64_t i) { to[i] = value; });
}

template <UnaryOp op, class T>
void unary_as(const Context& context, const Tensor& x, Tensor& y) {
  map(
      context, y.numel(), y.as<T>(), [] __device__(Compute<T> value) { return unary_value<op>(value); },
      x.as<const T>());
}

template <UnaryOp op, class T>
void unary_backward_as(const Context& context, const Tensor& kept, const Tensor& dy, Tensor& dx) {
  map(
      context, dx.numel(), dx.as<T>(),
      [] __device__(Compute<T> value, Compute<T> gradient) { return gradient * unary_slope<op>(value); },
      kept.as<const T>(), dy.as<const T>());
}

template <class T>
void scale_add_as(const Context& context, Compute<T> alpha, const Tensor& x, Compute<T> beta, Tensor& y) {
  using C = Compute<T>;
  if (beta == C(0))
    map(
        context, y.numel(), y.as<T>(), [=] __device__(C value) { return alpha * value; }, x.as<const T>());
  else
    map(
        context, y.numel(), y.as<T>(), [=] __device__(C value, C old) { return alpha * value + beta * old; },
        x.as<const T>(), y.as<const T>());
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void ElementwiseKernelsOn<cuda::Context>::fill(Tensor& y, double value) const {
  visit_any(y.dtype(), [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>)
      cuda::fill_as(context_, y, static_cast<T>(value));
    else
      cuda::fill_as(context_, y, static_cast<T>(static_cast<Compute<T>>(value)));
  });
}

template <>
void ElementwiseKernelsOn<cuda::Context>::unary(UnaryOp op, const Tensor& x, Tensor& y) const {
  visit_floating(x.dtype(), "unary", [&]<class T>(T) {
    visit(op, [&](auto which) { cuda::unary_as<decltype(which)::value, T>(context_, x, y); });
  });
}

template <>
void ElementwiseKernelsOn<cuda::Context>::unary_backward(UnaryOp op, const Tensor& x, const Tensor& y, const Tensor& dy,
                                                         Tensor& dx) const {
  visit_floating(dy.dtype(), "unary", [&]<class T>(T) {
    visit(op, [&](auto which) {
      cuda::unary_backward_as<decltype(which)::value, T>(context_, unary_keeps_input(op) ? x : y, dy, dx);
    });
  });
}

template <>
void ElementwiseKernelsOn<cuda::Context>::scale_add(double alpha, const Tensor& x, double beta, Tensor& y) const {
  visit_floating(x.dtype(), "scale_add", [&]<class T>(T) {
    cuda::scale_add_as<T>(context_, static_cast<Compute<T>>(alpha), x, static_cast<Compute<T>>(beta), y);
  });
}

}  // namespace heddle
