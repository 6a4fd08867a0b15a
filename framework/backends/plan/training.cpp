#include "framework/backends/plan/training.h"

namespace heddle::plan {

void PlanTraining::fill_normal(Tensor& y, const DrawKey& /*key*/, const DrawWindow& /*window*/, double /*mean*/,
                               double /*deviation*/) const {
  counter_.kernel(0, y);
}

void PlanTraining::fill_uniform(Tensor& y, const DrawKey& /*key*/, const DrawWindow& /*window*/, double /*low*/,
                                double /*high*/) const {
  counter_.kernel(0, y);
}

void PlanTraining::dropout(const Tensor& x, const DrawKey& /*key*/, const DrawWindow& /*window*/,
                           double /*probability*/, Tensor& y) const {
  counter_.kernel(x.numel(), x, y);
}

void PlanTraining::add_squared_norm(const Tensor& x, Tensor& /*result*/) const {
  counter_.kernel(2 * x.numel(), x);
}

void PlanTraining::clamp(Tensor& x, double /*bound*/) const {
  counter_.kernel(0, x, x);
}

void PlanTraining::sgd(const SgdStep& /*step*/, const Tensor& gradient, Tensor& weight, Tensor& velocity) const {
  counter_.kernel((velocity.defined() ? 6 : 4) * weight.numel(), gradient, weight, weight, velocity, velocity);
}

void PlanTraining::adamw(const AdamWStep& /*step*/, const Tensor& gradient, Tensor& weight, Tensor& mean,
                         Tensor& square) const {
  counter_.kernel(14 * weight.numel(), gradient, weight, weight, mean, mean, square, square);
}

}  // namespace heddle::plan
