// What pooling would do.
#pragma once

#include "framework/backends/plan/work_counter.h"
#include "framework/kernels/pooling.h"

namespace heddle::plan {

class PlanPooling final : public PoolingKernels {
 public:
  explicit PlanPooling(WorkCounter& counter) : counter_(counter) {}

  void pool(PoolOp op, const PoolGeometry& g, const Tensor& x, Tensor& y, Tensor& choice) const override;
  void pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy, const Tensor& choice,
                     Tensor& dx) const override;

 private:
  WorkCounter& counter_;
};

}  // namespace heddle::plan
