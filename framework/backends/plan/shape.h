// What moves of elements between shapes would do.
#pragma once

#include "framework/backends/plan/work_counter.h"
#include "framework/kernels/shape.h"

namespace heddle::plan {

class PlanShape final : public ShapeKernels {
 public:
  explicit PlanShape(WorkCounter& counter) : counter_(counter) {}

  void transpose(const Tensor& x, std::span<const int> order, Tensor& y) const override;
  void copy_columns(const Tensor& x, std::int64_t x_columns, std::int64_t x_begin, Tensor& y, std::int64_t y_columns,
                    std::int64_t y_begin, std::int64_t rows, std::int64_t columns) const override;

 private:
  WorkCounter& counter_;
};

}  // namespace heddle::plan
