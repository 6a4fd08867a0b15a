// The cpu backend's pooling kernels.
#pragma once

#include "framework/kernels/pooling.h"

namespace heddle::cpu {

class CpuPooling final : public PoolingKernels {
 public:
  explicit CpuPooling(int threads) : threads_(threads) {}

  void pool(PoolOp op, const PoolGeometry& g, const Tensor& x, Tensor& y, Tensor& choice) const override;
  void pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy, const Tensor& choice,
                     Tensor& dx) const override;

 private:
  int threads_;
};

}  // namespace heddle::cpu
