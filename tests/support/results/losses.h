// The losses of a run.
#pragma once

#include <vector>

#include "experiments/training/measurements/result.h"

namespace heddle::test {

/// One per step; NaN where none was computed.
inline std::vector<double> losses_in(const VariantResult& result) {
  return {result.steps.losses().begin(), result.steps.losses().end()};
}

}  // namespace heddle::test
