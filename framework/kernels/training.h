// Kernels of a training step: random fills, dropout, gradient norms, optimizer updates.
#pragma once

#include <cstdint>
#include <limits>
#include <variant>

#include "framework/scalars/random.h"
#include "framework/tensors/tensor.h"

namespace heddle {

/// Names one stream of random numbers; an element's draw depends on it and on the element's global index only.
struct DrawKey {
  RandomKey key;
  Purpose purpose = Purpose::initial_weights;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;  // which parameter, or which dropout layer
};

/// Where the elements of a block lie in the whole tensor: in runs of `run` neighbours, each run `stride` elements after
/// the one before. Element i of the block is global element first + i / run * stride + i % run.
struct DrawWindow {
  /// One run: all of the block follows its first element.
  DrawWindow(std::int64_t first_element) : first(first_element) {}  // NOLINT(google-explicit-constructor)
  DrawWindow(std::int64_t first_element, std::int64_t run_length, std::int64_t run_stride)
      : first(first_element), run(run_length), stride(run_stride) {}
  bool operator==(const DrawWindow&) const = default;

  std::int64_t first;
  std::int64_t run = std::numeric_limits<std::int64_t>::max();
  std::int64_t stride = 0;
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

using OptimizerStep = std::variant<SgdStep, AdamWStep>;

class TrainingKernels {
 public:
  virtual ~TrainingKernels() = default;

  /// Each element is the draw of its global index, which the window tells.
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

  /// velocity = momentum * velocity + (gradient + weight_decay * weight); weight -= learning_rate * velocity, or with
  /// Nesterov learning_rate * (gradient' + momentum * velocity). velocity is undefined if momentum = 0. A weight and
  /// its gradient have one type, optimizer state its compute type.
  virtual void sgd(const SgdStep& step, const Tensor& gradient, Tensor& weight, Tensor& velocity) const = 0;
  /// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
  virtual void adamw(const AdamWStep& step, const Tensor& gradient, Tensor& weight, Tensor& mean,
                     Tensor& square) const = 0;
};

}  // namespace heddle
