// Optimizers over a list of weights: sgd with momentum and AdamW.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/kernels/training.h"
#include "framework/tensor.h"

namespace heddle {

class Describer;

enum class OptimizerType { sgd, adamw };

struct OptimizerConfig {
  OptimizerType type = OptimizerType::sgd;
  double learning_rate = 0.1;
  double weight_decay = 0;
  bool decay_norms_and_biases = true;
  double momentum = 0.9;  // sgd
  bool nesterov = false;  // sgd
  double beta1 = 0.9;     // adamw
  double beta2 = 0.999;   // adamw
  double epsilon = 1e-8;  // adamw
};

/// The tagged union "optimizer": {"type": ..., "lr": ...}.
void describe_optimizer(Describer& d, const char* key, OptimizerConfig& config);

/// The constants of a step; steps count from 0.
OptimizerStep step_of(const OptimizerConfig& config, std::int64_t step, double learning_rate, double weight_decay);

/// A weight to be trained; the name finds its state again in a checkpoint.
struct Trained {
  std::string name;
  Tensor weight;
  bool is_norm_or_bias = false;
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
  virtual void update(std::size_t index, const OptimizerStep& step, const Tensor& gradient) = 0;
  /// One zero tensor for each weight.
  std::vector<Tensor> zeros() const;
  std::vector<State> named(const std::string& prefix, const std::vector<Tensor>& tensors) const;

  OptimizerConfig config_;
  std::vector<Trained> weights_;
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<Trained> weights);

}  // namespace heddle
