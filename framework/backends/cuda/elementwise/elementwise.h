// The cuda backend's elementwise kernels.
#pragma once

#include "framework/backends/cuda/device/context.h"
#include "framework/kernels/elementwise.h"

namespace heddle::cuda {

class CudaElementwise final : public ElementwiseKernels {
 public:
  explicit CudaElementwise(const Context& context) : context_(context) {}

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
  const Context& context_;
};

}  // namespace heddle::cuda
