// What the kernels of a training step would do.
#pragma once

#include "framework/backends/plan/work_counter.h"
#include "framework/kernels/training.h"

namespace heddle::plan {

class PlanTraining final : public TrainingKernels {
 public:
  explicit PlanTraining(WorkCounter& counter) : counter_(counter) {}

  void fill_normal(Tensor& y, const DrawKey& key, const DrawWindow& window, double mean,
                   double deviation) const override;
  void fill_uniform(Tensor& y, const DrawKey& key, const DrawWindow& window, double low, double high) const override;
  void dropout(const Tensor& x, const DrawKey& key, const DrawWindow& window, double probability,
               Tensor& y) const override;
  void add_squared_norm(const Tensor& x, Tensor& result) const override;
  void clamp(Tensor& x, double bound) const override;
  void sgd(const SgdStep& step, const Tensor& gradient, Tensor& weight, Tensor& velocity) const override;
  void adamw(const AdamWStep& step, const Tensor& gradient, Tensor& weight, Tensor& mean,
             Tensor& square) const override;

 private:
  WorkCounter& counter_;
};

}  // namespace heddle::plan
