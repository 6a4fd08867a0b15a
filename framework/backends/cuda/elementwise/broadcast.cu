#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/launch.cuh"
#include "framework/backends/cuda/elementwise/bias.h"
#include "framework/kernels/elementwise.h"
#include "framework/scalars/scalar.h"

namespace heddle::cuda {

namespace {

/// The result's dimensions from the last to the first, those merged that both operands walk as one, with the operands'
/// strides; 0 repeats an element.
struct Steps {
  int count = 0;
  std::int64_t size[Shape::max_rank];
  std::int64_t a[Shape::max_rank];
  std::int64_t b[Shape::max_rank];
};

std::int64_t stride_of(const Shape& shape, int from_end) {
  const int dimension = shape.rank() - 1 - from_end;
  if (dimension < 0 || shape[dimension] == 1) return 0;
  return shape.product(dimension + 1, shape.rank());
}

Steps steps_of(const Shape& a, const Shape& b, const Shape& y) {
  Steps steps;
  for (int from_end = 0; from_end < y.rank(); ++from_end) {
    const std::int64_t size = y[y.rank() - 1 - from_end];
    const std::int64_t stride_a = stride_of(a, from_end);
    const std::int64_t stride_b = stride_of(b, from_end);
    if (size == 1) continue;
    const int last = steps.count - 1;
    if (last >= 0 && stride_a == steps.size[last] * steps.a[last] && stride_b == steps.size[last] * steps.b[last]) {
      steps.size[last] *= size;
      continue;
    }
    steps.size[steps.count] = size;
    steps.a[steps.count] = stride_a;
    steps.b[steps.count] = stride_b;
    ++steps.count;
  }
  return steps;
}

template <BinaryOp op, class T>
void binary_as(const Context& context, const Tensor& a, const Tensor& b, Tensor& y) {
  using C = Compute<T>;
  const T* const left = a.as<const T>();
  const T* const right = b.as<const T>();
  T* const to = y.as<T>();
  if (a.shape() == b.shape()) {
    map(
        context, y.numel(), to, [] __device__(C x, C z) { return binary_value<op>(x, z); }, left, right);
    return;
  }
  for_each(context, y.numel(), [=, steps = steps_of(a.shape(), b.shape(), y.shape())] __device__(std::int64_t i) {
    std::int64_t in_a = 0;
    std::int64_t in_b = 0;
    std::int64_t rest = i;
    for (int s = 0; s < steps.count; ++s) {
      in_a += rest % steps.size[s] * steps.a[s];
      in_b += rest % steps.size[s] * steps.b[s];
      rest /= steps.size[s];
    }
    to[i] = static_cast<T>(binary_value<op>(static_cast<C>(left[in_a]), static_cast<C>(right[in_b])));
  });
}

void broadcast(const Context& context, BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) {
  if (y.numel() == 0) return;
  visit_floating(y.dtype(), "binary", [&]<class T>(T) {
    visit(op, [&](auto which) { binary_as<decltype(which)::value, T>(context, a, b, y); });
  });
}

}  // namespace

void add_bias(const Context& context, const Tensor& bias, Tensor& y) {
  broadcast(context, BinaryOp::add, y, bias, y);
}

}  // namespace heddle::cuda

namespace heddle {

template <>
void ElementwiseKernelsOn<cuda::Context>::binary(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) const {
  cuda::broadcast(context_, op, a, b, y);
}

}  // namespace heddle
