// What moves of elements between shapes would do.
#pragma once

#include "framework/backends/plan/work_counter.h"
#include "framework/kernels/shape.h"

namespace heddle::plan {

class PlanShape final : public ShapeKernels {
 public:
  explicit PlanShape(WorkCounter& counter) : counter_(counter) {}

  void transpose(const Tensor& x, std::span<const int> order, Tensor& y) const override;
  void copy_columns(const ColumnBlock& block, const Tensor& x, Tensor& y) const override;

 private:
  WorkCounter& counter_;
};

}  // namespace heddle::plan
