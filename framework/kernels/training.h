// Kernels of a training step: random fills, dropout, gradient norms, optimizer updates.
#pragma once

#include "framework/scalars/draw.h"
#include "framework/scalars/optimizer_step.h"
#include "framework/tensors/tensor.h"

namespace heddle {

class TrainingKernels {
 public:
  virtual ~TrainingKernels() = default;

  /// Each element is the draw of its global index, which the window gives.
  virtual void fill_normal(Tensor& y, const DrawKey& key, const DrawWindow& window, double mean,
                           double deviation) const = 0;
  virtual void fill_uniform(Tensor& y, const DrawKey& key, const DrawWindow& window, double low, double high) const = 0;
  /// y = keep ? x / (1 - probability) : 0, drawn for each element's global index. Its own backward: dx from dy.
  virtual void dropout(const Tensor& x, const DrawKey& key, const DrawWindow& window, double probability,
                       Tensor& y) const = 0;

  /// result (f64, one element) += sum of squares, in f64, in a fixed order.
  virtual void add_squared_norm(const Tensor& x, Tensor& result) const = 0;
  /// Every element into [-bound, bound].
  virtual void clamp(Tensor& x, double bound) const = 0;

  /// With g = gradient + weight_decay * weight: velocity = momentum * velocity + g; weight -= learning_rate * velocity,
  /// or with Nesterov learning_rate * (g + momentum * velocity). velocity is undefined if momentum = 0. A weight and
  /// its gradient have one type, optimizer state its compute type.
  virtual void sgd(const SgdStep& step, const Tensor& gradient, Tensor& weight, Tensor& velocity) const = 0;
  /// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
  virtual void adamw(const AdamWStep& step, const Tensor& gradient, Tensor& weight, Tensor& mean,
                     Tensor& square) const = 0;
};

/// The kernels of one backend, which defines each of them for its own Context (framework/backends/kernels_on.h).
template <class Context>
class TrainingKernelsOn final : public TrainingKernels {
 public:
  explicit TrainingKernelsOn(Context& context) : context_(context) {}

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
  Context& context_;
};

}  // namespace heddle
