// What elementwise kernels would do.
#pragma once

#include "framework/backends/plan/work_counter.h"
#include "framework/kernels/elementwise.h"

namespace heddle::plan {

class PlanElementwise final : public ElementwiseKernels {
 public:
  explicit PlanElementwise(WorkCounter& counter) : counter_(counter) {}

  void fill(Tensor& y, double value) const override;
  void cast(const Tensor& x, Tensor& y) const override;
  void unary(UnaryOp op, const Tensor& x, Tensor& y) const override;
  void unary_backward(UnaryOp op, const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) const override;
  void binary(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) const override;
  void scale_add(double alpha, const Tensor& x, double beta, Tensor& y) const override;
  void prelu(const Tensor& x, const Tensor& slope, Tensor& y) const override;
  void prelu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy, Tensor& dx,
                      Tensor& dslope) const override;

 private:
  WorkCounter& counter_;
};

}  // namespace heddle::plan
