// One operation per element, however costly the function.
#include "framework/backends/plan/elementwise.h"

namespace heddle::plan {

void PlanElementwise::fill(Tensor& y, double /*value*/) const {
  counter_.kernel(0, y);
}

void PlanElementwise::cast(const Tensor& x, Tensor& y) const {
  counter_.kernel(0, x, y);
}

void PlanElementwise::unary(UnaryOp /*op*/, const Tensor& x, Tensor& y) const {
  counter_.kernel(y.numel(), x, y);
}

void PlanElementwise::unary_backward(UnaryOp op, const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) const {
  counter_.kernel(2 * dx.numel(), unary_keeps_input(op) ? x : y, dy, dx);
}

void PlanElementwise::binary(BinaryOp /*op*/, const Tensor& a, const Tensor& b, Tensor& y) const {
  counter_.kernel(y.numel(), a, b, y);
}

void PlanElementwise::scale_add(double /*alpha*/, const Tensor& x, double beta, Tensor& y) const {
  counter_.kernel((beta == 0 ? 1 : 2) * y.numel(), x, beta == 0 ? Tensor() : y, y);
}

void PlanElementwise::prelu(const Tensor& x, const Tensor& /*slope*/, Tensor& y) const {
  counter_.kernel(x.numel(), x, y);
}

void PlanElementwise::prelu_backward(const Tensor& x, const Tensor& /*slope*/, const Tensor& dy, Tensor& dx,
                                     Tensor& dslope) const {
  counter_.kernel((dx.defined() ? x.numel() : 0) + (dslope.defined() ? 2 * x.numel() : 0), x, dy, dx);
}

}  // namespace heddle::plan
