// What reductions would do.
#pragma once

#include "framework/backends/plan/work_counter.h"
#include "framework/kernels/reduction.h"

namespace heddle::plan {

class PlanReduction final : public ReductionKernels {
 public:
  explicit PlanReduction(WorkCounter& counter) : counter_(counter) {}

  void reduce(ReduceOp op, const Tensor& x, std::array<std::int64_t, 3> view, Tensor& y) const override;
  void reduce_max_backward(const Tensor& x, const Tensor& y, std::array<std::int64_t, 3> view, const Tensor& dy,
                           Tensor& dx) const override;
  void combine(ReduceOp op, std::span<const Tensor> parts, std::span<Tensor> results) const override;

 private:
  WorkCounter& counter_;
};

}  // namespace heddle::plan
