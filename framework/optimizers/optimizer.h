// Optimizers over a list of weights: sgd with momentum and AdamW.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/kernels/training.h"
#include "framework/tensors/tensor.h"

namespace heddle {

class Describer;

enum class OptimizerType { sgd, adamw };

struct OptimizerConfig {
  OptimizerType type = OptimizerType::sgd;
  double learning_rate = 0.1;
  double weight_decay = 0;
  bool decay_norms_and_biases = true;
  double layer_decay = 1;  // factor of the backbone's learning rate from block to block, from its end to its beginning
  double momentum = 0.9;   // sgd
  bool nesterov = false;   // sgd
  /// The type that parameters of several dimensions (weights of convolutions and linear layers, position embeddings,
  /// tokens) are kept in, with their gradients and velocity: f32 (f64 with train.dtype f64), or bf16 or f16, stepped
  /// with stochastic rounding. sgd only.
  DType weights = DType::f32;
  double beta1 = 0.9;     // adamw
  double beta2 = 0.999;   // adamw
  double epsilon = 1e-8;  // adamw
};

/// The tagged union "optimizer": {"type": ..., "lr": ...}.
void describe_optimizer(Describer& d, const char* key, OptimizerConfig& config);

/// The constants of a step. Steps count from 0.
OptimizerStep step_of(const OptimizerConfig& config, std::int64_t step, double learning_rate, double weight_decay);

/// Rows of contiguous elements of a weight, which lie at equal distances in the whole parameter.
struct WeightRows {
  std::int64_t held = 0;  // first element within what the rank holds; rows follow each other there
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t whole = 0;   // the row-major index of the first element in the whole parameter
  std::int64_t stride = 0;  // the distance between the beginnings of rows, in the whole
};

/// The random draws with which a step of a 16-bit weight is rounded: each element has its own, whichever rank holds it.
struct WeightRounding {
  RandomKey key;
  std::uint32_t stream = 0;  // a different one for every parameter
  std::vector<WeightRows> rows;
};

/// A weight to be trained. Its state is found by its name in a checkpoint.
struct TrainedWeight {
  std::string name;
  Tensor weight;
  bool is_norm_or_bias = false;
  /// For a 16-bit weight that sgd rounds stochastically, together with its velocity; if empty, it is rounded to
  /// nearest. Its gradient may be f32.
  std::optional<WeightRounding> rounding{};
  std::int64_t first_step = 0;
  double rate_factor = 1;  // of the learning rate
};

class Optimizer {
 public:
  /// Allocates the state in Category::optimizer.
  Optimizer(const OptimizerConfig& config, std::vector<TrainedWeight> weights);
  virtual ~Optimizer() = default;

  /// One step with gradients[i] for weights[i]; an undefined gradient leaves its weight as it is. Learning rates change
  /// from step to step; step counts from 0. `scales[i]`: what gradients[i] is still multiplied by (empty: 1), which
  /// only a stochastically rounded weight may have. It is taken out in f32, where small gradients do not vanish.
  void step(std::int64_t step, double learning_rate, const std::vector<Tensor>& gradients,
            const std::vector<double>& scales = {});
  /// The step in which a weight is trained for the first time (0 unless set). Its own steps are counted from there.
  void set_first_step(const std::string& weight, std::int64_t step);

  /// A state tensor of the shape of its weight: `velocity.layer1.0.conv1.weight` belongs to `layer1.0.conv1.weight`.
  struct State {
    std::string name;
    std::string weight;
    Tensor value;
  };
  virtual std::vector<State> state() const = 0;

 protected:
  /// A weight that takes a step. `scale`: what the gradient is multiplied by.
  struct WeightStep {
    std::size_t index;
    OptimizerStep constants;
    Tensor gradient;
    double scale;
  };
  /// Changes the weights and their state, in the step that counts from 0.
  virtual void update(std::int64_t step, std::span<const WeightStep> steps) = 0;
  /// One tensor of zeros for each weight, of its compute type, or of its own type if it is rounded stochastically.
  std::vector<Tensor> zeros() const;
  std::vector<State> named(const std::string& prefix, const std::vector<Tensor>& tensors) const;

  OptimizerConfig config_;
  std::vector<TrainedWeight> weights_;
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<TrainedWeight> weights);

}  // namespace heddle
