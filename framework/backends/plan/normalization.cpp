#include "framework/kernels/normalization.h"

#include "framework/backends/plan/context.h"

namespace heddle {

template <>
void NormalizationKernelsOn<plan::Context>::moments(const Tensor& x, Tensor& /*moments*/) const {
  context_.counter.kernel(4 * x.numel(), x);
}

template <>
void NormalizationKernelsOn<plan::Context>::normalize(const ChannelNorm& norm, const Tensor& residual,
                                                      Tensor& y) const {
  context_.counter.kernel(
      (2 + (residual.defined() ? 1 : 0) + (norm.activation == NormActivation::none ? 0 : 1)) * norm.x.numel(), norm.x,
      residual, y);
}

template <>
void NormalizationKernelsOn<plan::Context>::normalize_backward_sums(const ChannelNorm& norm, const Tensor& y,
                                                                    const Tensor& dy, Tensor& /*sums*/,
                                                                    Tensor& dresidual) const {
  context_.counter.kernel((5 + (norm.activation == NormActivation::none ? 0 : 1)) * norm.x.numel(), norm.x, y, dy,
                          dresidual);
}

template <>
void NormalizationKernelsOn<plan::Context>::normalize_backward_input(const ChannelNorm& norm, const Tensor& dy,
                                                                     const Tensor& /*sums*/, double count,
                                                                     Tensor& dx) const {
  context_.counter.kernel(((count == 0 ? 1 : 5) + (norm.activation == NormActivation::none ? 0 : 1)) * norm.x.numel(),
                          norm.x, dy, dx);
}

template <>
void NormalizationKernelsOn<plan::Context>::combine_moments(const Tensor& groups, Tensor& /*merged*/) const {
  context_.counter.kernel(5 * groups.numel(), groups);
}

template <>
void NormalizationKernelsOn<plan::Context>::merge_moments(const Tensor& groups, double /*momentum*/,
                                                          Tensor& /*running_mean*/,
                                                          Tensor& /*running_variance*/) const {
  context_.counter.kernel(5 * groups.numel(), groups);
}

template <>
void NormalizationKernelsOn<plan::Context>::inverse_deviation(const Tensor& variance, double /*factor*/,
                                                              double /*epsilon*/, Tensor& inverse) const {
  context_.counter.kernel(4 * variance.numel(), variance, inverse);
}

template <>
void NormalizationKernelsOn<plan::Context>::l2_normalize(const Tensor& x, double /*epsilon*/, Tensor& y,
                                                         Tensor& /*inverse_norm*/) const {
  context_.counter.per_element(y.defined() ? 3 : 2, x, y);
}

template <>
void NormalizationKernelsOn<plan::Context>::l2_normalize_backward(const Tensor& x, const Tensor& /*inverse_norm*/,
                                                                  const Tensor& dy, Tensor& dx) const {
  context_.counter.per_element(5, x, dy, dx);
}

template <>
void NormalizationKernelsOn<plan::Context>::layer_norm(const Tensor& x, const Tensor& /*gamma*/, const Tensor& /*beta*/,
                                                       double /*epsilon*/, Tensor& y, Tensor& /*statistics*/) const {
  context_.counter.per_element(8, x, y);
}

template <>
void NormalizationKernelsOn<plan::Context>::layer_norm_backward(const Tensor& x, const Tensor& /*gamma*/,
                                                                const Tensor& /*statistics*/, const Tensor& dy,
                                                                Tensor& dx, Tensor& dgamma, Tensor& dbeta) const {
  context_.counter.per_element((dx.defined() ? 10 : 0) + (dgamma.defined() ? 4 : 0) + (dbeta.defined() ? 1 : 0), x, dy,
                               dx);
}

}  // namespace heddle
