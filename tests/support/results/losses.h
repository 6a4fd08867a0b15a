// The losses of a run.
#pragma once

#include <vector>

#include "experiments/training/measurements/result.h"

namespace heddle::test {

/// One per step.
inline std::vector<double> losses_in(const VariantResult& result) {
  std::vector<double> losses;
  for (const StepRecord& record : result.steps) losses.push_back(record.loss.value());
  return losses;
}

}  // namespace heddle::test
