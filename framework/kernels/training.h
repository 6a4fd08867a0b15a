// Kernels of a training step: random fills, dropout, gradient norms, optimizer updates.
#pragma once

#include <span>

#include "framework/scalars/draw.h"
#include "framework/scalars/optimizer_step.h"
#include "framework/tensors/tensor.h"

namespace heddle {

/// A weight and what sgd steps it with. The gradient has the type of the weight; the velocity has its compute type, and
/// is undefined if momentum = 0.
struct SgdWeight {
  SgdStep step;
  Tensor gradient, weight, velocity{};
};

/// The same for AdamW; mean and square have the compute type.
struct AdamWWeight {
  AdamWStep step;
  Tensor gradient, weight, mean, square;
};

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

  /// For each weight, with g = gradient + weight_decay * weight: velocity = momentum * velocity + g; weight -=
  /// learning_rate * velocity, or with Nesterov learning_rate * (g + momentum * velocity). A GPU steps many weights in
  /// one launch.
  virtual void sgd(std::span<const SgdWeight> weights) const = 0;
  /// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
  virtual void adamw(std::span<const AdamWWeight> weights) const = 0;
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
  void sgd(std::span<const SgdWeight> weights) const override;
  void adamw(std::span<const AdamWWeight> weights) const override;

 private:
  Context& context_;
};

}  // namespace heddle
