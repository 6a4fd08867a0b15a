// Normalization over channels (batch norm) and over rows (layer norm, L2). Statistics, norms and affine parameters are
// of the compute type: f64 beside f64, else f32.
#pragma once

#include "framework/tensors/tensor.h"

namespace heddle {

enum class NormActivation { none, relu, prelu };

/// Batch norm of x with given statistics: activation(gamma * (x - mean) * inverse_deviation + beta).
struct ChannelNorm {
  Tensor x;                  // [N, C]: any leading dimensions
  Tensor mean;               // [C]
  Tensor inverse_deviation;  // [C]
  Tensor gamma{};            // [C]; undefined: 1
  Tensor beta{};             // [C]; undefined: 0
  NormActivation activation = NormActivation::none;
  Tensor slope{};  // [C], of prelu
};

class NormalizationKernels {
 public:
  virtual ~NormalizationKernels() = default;

  // Over channels. The forward and the backward have two parts each, so that sums may be reduced over ranks in between.

  /// x [N, C]; moments [2, C]: mean, and sum of squared deviations from it. Same bits for any number of threads.
  virtual void moments(const Tensor& x, Tensor& moments) const = 0;
  /// y = activation(gamma * (x - mean) * inverse_deviation + beta + residual); residual [N, C] may be undefined.
  virtual void normalize(const ChannelNorm& norm, const Tensor& residual, Tensor& y) const = 0;
  /// First part of the backward. y: normalize's output, needed when there was a residual (relu only), else undefined.
  /// sums [3, C]: of g = dy * activation', of g * (x - mean) * inverse_deviation, and for prelu the slope's gradient
  /// (else 0). dresidual, if defined, receives g; it may be dy.
  virtual void normalize_backward_sums(const ChannelNorm& norm, const Tensor& y, const Tensor& dy, Tensor& sums,
                                       Tensor& dresidual) const = 0;
  /// dx = gamma * inverse_deviation * (g - sums[0] / count - xhat * sums[1] / count); count = 0: the statistics were
  /// constants (evaluation). If there was a residual, dy is dresidual of the first part and activation none.
  /// dx may be dy.
  virtual void normalize_backward_input(const ChannelNorm& norm, const Tensor& dy, const Tensor& sums, double count,
                                        Tensor& dx) const = 0;

  /// One group's moments from those of its parts. groups [G, 2C + 1]: each row a count, the means and the sums of
  /// squared deviations; merged [2C + 1] in row order (Chan, Golub and LeVeque 1979). Rows of count 0 add nothing.
  virtual void combine_moments(const Tensor& groups, Tensor& merged) const = 0;
  /// Running statistics of batch norm: such groups merged, then running = (1 - momentum) * running + momentum * merged,
  /// with the unbiased variance.
  virtual void merge_moments(const Tensor& groups, double momentum, Tensor& running_mean,
                             Tensor& running_variance) const = 0;

  /// inverse [C] = 1 / sqrt(factor * variance + epsilon); `inverse` may be `variance`.
  virtual void inverse_deviation(const Tensor& variance, double factor, double epsilon, Tensor& inverse) const = 0;

  // Over rows: a row is the last dimension, everything before it counts rows.

  /// y = x / max(|x|, epsilon); inverse_norm [n] = 1 / max(|x|, epsilon). y may be undefined: norms only.
  virtual void l2_normalize(const Tensor& x, double epsilon, Tensor& y, Tensor& inverse_norm) const = 0;
  /// dx = (dy - y * sum(dy * y)) * inverse_norm, y = x * inverse_norm. dx may be dy.
  virtual void l2_normalize_backward(const Tensor& x, const Tensor& inverse_norm, const Tensor& dy,
                                     Tensor& dx) const = 0;

  /// y = (x - mean) / sqrt(var + epsilon) * gamma + beta for each row; statistics [2, n]: mean, inverse deviation.
  /// gamma and beta may be undefined: 1 and 0.
  virtual void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, Tensor& y,
                          Tensor& statistics) const = 0;
  /// Each of dx, dgamma, dbeta may be undefined when not wanted; gamma may be undefined: 1.
  virtual void layer_norm_backward(const Tensor& x, const Tensor& gamma, const Tensor& statistics, const Tensor& dy,
                                   Tensor& dx, Tensor& dgamma, Tensor& dbeta) const = 0;
};

/// The kernels of one backend, which defines each of them for its own Context (framework/backends/kernels_on.h).
template <class Context>
class NormalizationKernelsOn final : public NormalizationKernels {
 public:
  explicit NormalizationKernelsOn(Context& context) : context_(context) {}

  void moments(const Tensor& x, Tensor& moments) const override;
  void normalize(const ChannelNorm& norm, const Tensor& residual, Tensor& y) const override;
  void normalize_backward_sums(const ChannelNorm& norm, const Tensor& y, const Tensor& dy, Tensor& sums,
                               Tensor& dresidual) const override;
  void normalize_backward_input(const ChannelNorm& norm, const Tensor& dy, const Tensor& sums, double count,
                                Tensor& dx) const override;
  void combine_moments(const Tensor& groups, Tensor& merged) const override;
  void merge_moments(const Tensor& groups, double momentum, Tensor& running_mean,
                     Tensor& running_variance) const override;
  void inverse_deviation(const Tensor& variance, double factor, double epsilon, Tensor& inverse) const override;
  void l2_normalize(const Tensor& x, double epsilon, Tensor& y, Tensor& inverse_norm) const override;
  void l2_normalize_backward(const Tensor& x, const Tensor& inverse_norm, const Tensor& dy, Tensor& dx) const override;
  void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, Tensor& y,
                  Tensor& statistics) const override;
  void layer_norm_backward(const Tensor& x, const Tensor& gamma, const Tensor& statistics, const Tensor& dy, Tensor& dx,
                           Tensor& dgamma, Tensor& dbeta) const override;

 private:
  Context& context_;
};

}  // namespace heddle
