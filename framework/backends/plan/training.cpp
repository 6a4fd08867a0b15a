#include "framework/kernels/training.h"

#include "framework/backends/plan/context.h"

namespace heddle {

template <>
void TrainingKernelsOn<plan::Context>::fill_normal(Tensor& y, const DrawKey& /*key*/, const DrawWindow& /*window*/,
                                                   double /*mean*/, double /*deviation*/) const {
  context_.counter.kernel(0, y);
}

template <>
void TrainingKernelsOn<plan::Context>::fill_uniform(Tensor& y, const DrawKey& /*key*/, const DrawWindow& /*window*/,
                                                    double /*low*/, double /*high*/) const {
  context_.counter.kernel(0, y);
}

template <>
void TrainingKernelsOn<plan::Context>::dropout(const Tensor& x, const DrawKey& /*key*/, const DrawWindow& /*window*/,
                                               double /*probability*/, Tensor& y) const {
  context_.counter.kernel(x.numel(), x, y);
}

template <>
void TrainingKernelsOn<plan::Context>::add_squared_norm(const Tensor& x, Tensor& /*result*/) const {
  context_.counter.kernel(2 * x.numel(), x);
}

template <>
void TrainingKernelsOn<plan::Context>::clamp(Tensor& x, double /*bound*/) const {
  context_.counter.kernel(0, x, x);
}

template <>
void TrainingKernelsOn<plan::Context>::sgd(std::span<const SgdWeight> weights) const {
  for (const auto& [step, gradient, weight, velocity] : weights)
    context_.counter.kernel((velocity.defined() ? 6 : 4) * weight.numel(), gradient, weight, weight, velocity,
                            velocity);
}

template <>
void TrainingKernelsOn<plan::Context>::adamw(std::span<const AdamWWeight> weights) const {
  for (const auto& [step, gradient, weight, mean, square] : weights)
    context_.counter.kernel(14 * weight.numel(), gradient, weight, weight, mean, mean, square, square);
}

}  // namespace heddle
