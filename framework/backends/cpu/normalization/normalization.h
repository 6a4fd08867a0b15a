// The cpu backend's normalization kernels.
#pragma once

#include "framework/kernels/normalization.h"

namespace heddle::cpu {

class CpuNormalization final : public NormalizationKernels {
 public:
  explicit CpuNormalization(int threads) : threads_(threads) {}

  void moments(const Tensor& x, Tensor& moments) const override;
  void normalize(const ChannelNorm& norm, const Tensor& residual, Tensor& y) const override;
  void normalize_backward_sums(const ChannelNorm& norm, const Tensor& y, const Tensor& dy, Tensor& sums,
                               Tensor& dresidual) const override;
  void normalize_backward_input(const ChannelNorm& norm, const Tensor& dy, const Tensor& sums, double count,
                                Tensor& dx) const override;
  void combine_moments(const Tensor& groups, Tensor& merged) const override;
  void merge_moments(const Tensor& groups, double momentum, Tensor& running_mean,
                     Tensor& running_variance) const override;
  void l2_normalize(const Tensor& x, double epsilon, Tensor& y, Tensor& inverse_norm) const override;
  void l2_normalize_backward(const Tensor& x, const Tensor& inverse_norm, const Tensor& dy, Tensor& dx) const override;
  void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, Tensor& y,
                  Tensor& statistics) const override;
  void layer_norm_backward(const Tensor& x, const Tensor& gamma, const Tensor& statistics, const Tensor& dy, Tensor& dx,
                           Tensor& dgamma, Tensor& dbeta) const override;

 private:
  int threads_;
};

}  // namespace heddle::cpu
