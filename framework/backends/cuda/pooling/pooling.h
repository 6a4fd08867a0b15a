// The cuda backend's pooling kernels.
#pragma once

#include "framework/backends/cuda/device/context.h"
#include "framework/kernels/pooling.h"

namespace heddle::cuda {

class CudaPooling final : public PoolingKernels {
 public:
  explicit CudaPooling(const Context& context) : context_(context) {}

  void pool(PoolOp op, const PoolGeometry& g, const Tensor& x, Tensor& y, Tensor& choice) const override;
  void pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy, const Tensor& choice,
                     Tensor& dx) const override;

 private:
  const Context& context_;
};

}  // namespace heddle::cuda
