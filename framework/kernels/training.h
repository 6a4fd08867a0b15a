// Kernels of a training step: random fills, dropout, gradient norms, optimizer updates.
#pragma once

#include "framework/random.h"
#include "framework/tensor.h"

namespace heddle {

/// Names one stream of random numbers; an element's draw depends on it and on the element's global index only.
struct DrawKey {
  RandomKey key;
  Purpose purpose = Purpose::initial_weights;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;  // which parameter, or which dropout layer
};

struct SgdStep {
  double learning_rate = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

struct AdamWStep {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  std::int64_t step = 1;  // counts from 1
};

class TrainingKernels {
 public:
  virtual ~TrainingKernels() = default;

  /// Element i is the draw of global element first + i.
  virtual void fill_normal(Tensor& y, const DrawKey& key, std::int64_t first, double mean, double deviation) const = 0;
  virtual void fill_uniform(Tensor& y, const DrawKey& key, std::int64_t first, double low, double high) const = 0;
  /// y = keep ? x / (1 - probability) : 0; element i is global element first + i. Its own backward: dx from dy.
  virtual void dropout(const Tensor& x, const DrawKey& key, std::int64_t first, double probability,
                       Tensor& y) const = 0;

  /// result (f64, one element) += sum of squares, in f64, in a fixed order.
  virtual void add_squared_norm(const Tensor& x, Tensor& result) const = 0;
  /// Every element into [-bound, bound].
  virtual void clamp(Tensor& x, double bound) const = 0;

  /// velocity = momentum * velocity + (gradient + weight_decay * weight); weight -= learning_rate * velocity, or with
  /// Nesterov learning_rate * (gradient' + momentum * velocity). velocity is undefined if momentum = 0. A weight and
  /// its gradient have one type, optimizer state its compute type.
  virtual void sgd(const SgdStep& step, const Tensor& gradient, Tensor& weight, Tensor& velocity) const = 0;
  /// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
  virtual void adamw(const AdamWStep& step, const Tensor& gradient, Tensor& weight, Tensor& mean,
                     Tensor& square) const = 0;

  /// Running statistics of batch norm from the moments of sample groups. groups [G, 2C + 1]: each row a count, the
  /// means and the sums of squared deviations; merged in row order (Chan, Golub and LeVeque 1979), then
  /// running = (1 - momentum) * running + momentum * merged, with the unbiased variance.
  virtual void merge_moments(const Tensor& groups, double momentum, Tensor& running_mean,
                             Tensor& running_variance) const = 0;
};

}  // namespace heddle
