#include "framework/backends/plan/normalization.h"

namespace heddle::plan {

void PlanNormalization::moments(const Tensor& x, Tensor& /*moments*/) const {
  counter_.kernel(4 * x.numel(), x);
}

void PlanNormalization::normalize(const ChannelNorm& norm, const Tensor& residual, Tensor& y) const {
  counter_.kernel(
      (2 + (residual.defined() ? 1 : 0) + (norm.activation == NormActivation::none ? 0 : 1)) * norm.x.numel(), norm.x,
      residual, y);
}

void PlanNormalization::normalize_backward_sums(const ChannelNorm& norm, const Tensor& y, const Tensor& dy,
                                                Tensor& /*sums*/, Tensor& dresidual) const {
  counter_.kernel((5 + (norm.activation == NormActivation::none ? 0 : 1)) * norm.x.numel(), norm.x, y, dy, dresidual);
}

void PlanNormalization::normalize_backward_input(const ChannelNorm& norm, const Tensor& dy, const Tensor& /*sums*/,
                                                 double count, Tensor& dx) const {
  counter_.kernel(((count == 0 ? 1 : 5) + (norm.activation == NormActivation::none ? 0 : 1)) * norm.x.numel(), norm.x,
                  dy, dx);
}

void PlanNormalization::combine_moments(const Tensor& groups, Tensor& /*merged*/) const {
  counter_.kernel(5 * groups.numel(), groups);
}

void PlanNormalization::merge_moments(const Tensor& groups, double /*momentum*/, Tensor& /*running_mean*/,
                                      Tensor& /*running_variance*/) const {
  counter_.kernel(5 * groups.numel(), groups);
}

void PlanNormalization::l2_normalize(const Tensor& x, double /*epsilon*/, Tensor& y, Tensor& /*inverse_norm*/) const {
  counter_.per_element(y.defined() ? 3 : 2, x, y);
}

void PlanNormalization::l2_normalize_backward(const Tensor& x, const Tensor& /*inverse_norm*/, const Tensor& dy,
                                              Tensor& dx) const {
  counter_.per_element(5, x, dy, dx);
}

void PlanNormalization::layer_norm(const Tensor& x, const Tensor& /*gamma*/, const Tensor& /*beta*/, double /*epsilon*/,
                                   Tensor& y, Tensor& /*statistics*/) const {
  counter_.per_element(8, x, y);
}

void PlanNormalization::layer_norm_backward(const Tensor& x, const Tensor& /*gamma*/, const Tensor& /*statistics*/,
                                            const Tensor& dy, Tensor& dx, Tensor& dgamma, Tensor& dbeta) const {
  counter_.per_element((dx.defined() ? 10 : 0) + (dgamma.defined() ? 4 : 0) + (dbeta.defined() ? 1 : 0), x, dy, dx);
}

}  // namespace heddle::plan
