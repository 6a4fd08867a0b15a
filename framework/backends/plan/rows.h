// What kernels over rows would do.
#pragma once

#include "framework/backends/plan/work_counter.h"
#include "framework/kernels/rows.h"

namespace heddle::plan {

class PlanRows final : public RowKernels {
 public:
  explicit PlanRows(WorkCounter& counter) : counter_(counter) {}

  void gather(const Tensor& x, const Tensor& index, Tensor& y) const override;
  void scatter_add(const Tensor& x, const Tensor& index, Tensor& y) const override;
  void top_k(const Tensor& x, Tensor& values, Tensor& index) const override;
  void softmax(const Tensor& x, Tensor& y) const override;
  void softmax_backward(const Tensor& y, const Tensor& dy, Tensor& dx) const override;
  void log_sum_exp(const Tensor& x, Tensor& y) const override;
  void log_sum_exp_backward(const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) const override;
  void cross_entropy(const Tensor& x, const Tensor& log_sums, const Tensor& labels, Tensor& loss) const override;
  void cross_entropy_backward(const Tensor& x, const Tensor& log_sums, const Tensor& labels, const Tensor& dloss,
                              Tensor& dx) const override;

 private:
  WorkCounter& counter_;
};

}  // namespace heddle::plan
