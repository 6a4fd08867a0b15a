// The losses of a run.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include "experiments/training/measurements/result.h"

namespace heddle::test {

/// One per step, in a run whose records are all kept.
inline std::vector<double> losses_in(const VariantResult& result) {
  REQUIRE(result.steps.size() == result.steps.losses().size());
  std::vector<double> losses;
  for (const StepRecord& record : result.steps) losses.push_back(record.loss.value());
  return losses;
}

}  // namespace heddle::test
