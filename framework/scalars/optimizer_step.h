// The settings of one step of an optimizer.
#pragma once

#include <cstdint>
#include <variant>

namespace heddle {

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

}  // namespace heddle
