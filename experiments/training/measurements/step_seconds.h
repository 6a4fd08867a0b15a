// The time of a step, in a few numbers.
#pragma once

#include <algorithm>
#include <vector>

#include "experiments/training/measurements/median.h"

namespace heddle {

/// Over several steps, in seconds.
struct StepSeconds {
  double median = 0;
  double minimum = 0;
  double maximum = 0;
};

/// There must be at least one step.
inline StepSeconds step_seconds(const std::vector<double>& steps) {
  const auto [fastest, slowest] = std::minmax_element(steps.begin(), steps.end());
  return {.median = median(steps), .minimum = *fastest, .maximum = *slowest};
}

}  // namespace heddle
