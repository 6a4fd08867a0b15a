// What the kernels of the rows of a class table would do.
#pragma once

#include "framework/backends/plan/work_counter.h"
#include "framework/kernels/class_rows.h"

namespace heddle::plan {

class PlanClassRows final : public ClassRowKernels {
 public:
  explicit PlanClassRows(WorkCounter& counter) : counter_(counter) {}

  void load(const ClassTable& table, const ClassSelection& selection, double epsilon, Tensor& rows,
            Tensor& inverse_norm) const override;
  void step(ClassTable& table, const ClassSelection& selection, const Tensor& rows, const Tensor& inverse_norm,
            const Tensor& products, const ClassStep& step) const override;
  void catch_up(ClassTable& table, const ClassSelection& selection, const LazySteps& steps) const override;
  void add_squared_gradient(const Tensor& rows, const Tensor& inverse_norm, const Tensor& products, double bound,
                            Tensor& result) const override;
  void fill(ClassTable& table, const DrawKey& key, std::int64_t first_element,
            const ClassInitial& initial) const override;

 private:
  WorkCounter& counter_;
};

}  // namespace heddle::plan
