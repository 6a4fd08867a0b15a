// Optimizers over a list of weights: sgd with momentum and AdamW.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/kernels/training.h"
#include "framework/tensors/tensor.h"

namespace heddle {

class Describer;

enum class OptimizerType { sgd, adamw };
/// The type that weights of convolutions and linear layers are kept in, with their gradients and velocity: f32 (f64
/// with train.dtype f64), or bf16, stepped with stochastic rounding.
enum class KeptWeights { f32, bf16 };

struct OptimizerConfig {
  OptimizerType type = OptimizerType::sgd;
  double learning_rate = 0.1;
  double weight_decay = 0;
  bool decay_norms_and_biases = true;
  double momentum = 0.9;                   // sgd
  bool nesterov = false;                   // sgd
  KeptWeights weights = KeptWeights::f32;  // sgd
  double beta1 = 0.9;                      // adamw
  double beta2 = 0.999;                    // adamw
  double epsilon = 1e-8;                   // adamw
};

/// The tagged union "optimizer": {"type": ..., "lr": ...}.
void describe_optimizer(Describer& d, const char* key, OptimizerConfig& config);

/// The constants of a step; steps count from 0.
OptimizerStep step_of(const OptimizerConfig& config, std::int64_t step, double learning_rate, double weight_decay);

/// Rows of a weight's elements, neighbours each, that lie in the whole parameter at equal distances.
struct WeightRows {
  std::int64_t held = 0;  // first element within what the rank holds; rows follow each other there
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t whole = 0;   // its row-major index in the whole parameter
  std::int64_t stride = 0;  // from a row's beginning to the next one's, in the whole
};

/// What a step of a 16-bit weight is rounded with: each element by its own draw, whoever holds it.
struct WeightRounding {
  RandomKey key;
  std::uint32_t stream = 0;  // another one for every parameter
  std::vector<WeightRows> rows;
};

/// A weight to be trained; the name finds its state again in a checkpoint.
struct Trained {
  std::string name;
  Tensor weight;
  bool is_norm_or_bias = false;
  /// Of a bf16 weight that sgd steps with stochastic rounding, its velocity, too; none: it is rounded to nearest.
  std::optional<WeightRounding> rounding{};
  std::int64_t first_step = 0;
};

class Optimizer {
 public:
  /// State is made here, in Category::optimizer.
  Optimizer(const OptimizerConfig& config, std::vector<Trained> weights);
  virtual ~Optimizer() = default;

  /// One step with gradients[i] for weights[i]; an undefined gradient leaves its weight as it is. Learning rates change
  /// from step to step; step counts from 0.
  void step(std::int64_t step, double learning_rate, const std::vector<Tensor>& gradients);
  /// The step in which a weight is trained for the first time (0 unless told): its own steps count from there.
  void set_first_step(const std::string& weight, std::int64_t step);

  /// A tensor like one of the weights: `velocity.layer1.0.conv1.weight` belongs to `layer1.0.conv1.weight`.
  struct State {
    std::string name;
    std::string weight;
    Tensor value;
  };
  virtual std::vector<State> state() const = 0;

 protected:
  /// Of the step `step`, with its constants.
  virtual void update(std::size_t index, std::int64_t step, const OptimizerStep& constants, const Tensor& gradient) = 0;
  /// One zero tensor for each weight, of its compute type or, if it is rounded stochastically, its own.
  std::vector<Tensor> zeros() const;
  std::vector<State> named(const std::string& prefix, const std::vector<Tensor>& tensors) const;

  OptimizerConfig config_;
  std::vector<Trained> weights_;
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<Trained> weights);

}  // namespace heddle
