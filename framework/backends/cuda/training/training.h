// The cuda backend's kernels of a training step.
#pragma once

#include "framework/backends/cuda/device/context.h"
#include "framework/kernels/training.h"

namespace heddle::cuda {

class CudaTraining final : public TrainingKernels {
 public:
  explicit CudaTraining(const Context& context) : context_(context) {}

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
  const Context& context_;
};

}  // namespace heddle::cuda
