// Exponential moving averages of weights, which are often more accurate than the weights of the last step (Polyak and
// Juditsky, "Acceleration of stochastic approximation by averaging", 1992; timm's ModelEma).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/optimizers/optimizer.h"
#include "framework/tensors/tensor.h"

namespace heddle {

class Describer;

struct EmaConfig {
  double decay = 0.9999;
  bool warm_up = false;
};
void describe(Describer& d, EmaConfig& config);

/// The factor of the average in a step; steps count from 0. With warm_up it is at most (1 + step) / (10 + step), as in
/// TensorFlow, so that the first weights do not dominate.
double ema_decay(const EmaConfig& config, std::int64_t step);

/// What the name of an average begins with, before the name of its weight.
inline constexpr const char* average_prefix = "ema.";

class WeightAverages {
 public:
  struct Averaged {
    std::string name;
    Tensor weight;  // floating
  };
  /// The averages begin as the weights. They are charged to Category::optimizer, and have the compute type of their
  /// weight: in 16 bits, small changes would vanish.
  WeightAverages(const EmaConfig& config, std::vector<Averaged> weights);

  /// Begins anew with the present weights.
  void restart();
  /// average += (1 - ema_decay) * (weight - average), after the weights have made the step.
  void update(std::int64_t step);
  /// Puts the averages in place of the weights, whose values are kept, in Category::workspace, until `restore`.
  void use();
  void restore();

  /// `ema.conv1.weight` is the average of `conv1.weight`.
  std::vector<Optimizer::State> state() const;

 private:
  EmaConfig config_;
  std::vector<Averaged> weights_;
  std::vector<Tensor> averages_;
  std::vector<Tensor> kept_;  // the weights themselves, while the averages are in their place
};

}  // namespace heddle
