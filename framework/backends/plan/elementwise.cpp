// One operation per element, however costly the function.
#include "framework/kernels/elementwise.h"

#include "framework/backends/plan/context.h"

namespace heddle {

template <>
void ElementwiseKernelsOn<plan::Context>::fill(Tensor& y, double /*value*/) const {
  context_.counter.kernel(0, y);
}

template <>
void ElementwiseKernelsOn<plan::Context>::cast(const Tensor& x, Tensor& y) const {
  context_.counter.kernel(0, x, y);
}

template <>
void ElementwiseKernelsOn<plan::Context>::unary(UnaryOp /*op*/, const Tensor& x, Tensor& y) const {
  context_.counter.kernel(y.numel(), x, y);
}

template <>
void ElementwiseKernelsOn<plan::Context>::unary_backward(UnaryOp op, const Tensor& x, const Tensor& y, const Tensor& dy,
                                                         Tensor& dx) const {
  context_.counter.kernel(2 * dx.numel(), unary_keeps_input(op) ? x : y, dy, dx);
}

template <>
void ElementwiseKernelsOn<plan::Context>::binary(BinaryOp /*op*/, const Tensor& a, const Tensor& b, Tensor& y) const {
  context_.counter.kernel(y.numel(), a, b, y);
}

template <>
void ElementwiseKernelsOn<plan::Context>::scale_add(double /*alpha*/, const Tensor& x, double beta, Tensor& y) const {
  context_.counter.kernel((beta == 0 ? 1 : 2) * y.numel(), x, beta == 0 ? Tensor() : y, y);
}

template <>
void ElementwiseKernelsOn<plan::Context>::prelu(const Tensor& x, const Tensor& /*slope*/, Tensor& y) const {
  context_.counter.kernel(x.numel(), x, y);
}

template <>
void ElementwiseKernelsOn<plan::Context>::prelu_backward(const Tensor& x, const Tensor& /*slope*/, const Tensor& dy,
                                                         Tensor& dx, Tensor& dslope) const {
  context_.counter.kernel((dx.defined() ? x.numel() : 0) + (dslope.defined() ? 2 * x.numel() : 0), x, dy, dx);
}

}  // namespace heddle
