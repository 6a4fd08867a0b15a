// The restarts of an elastic job in the result of a run that resumes after one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/training/measurements/result.h"

namespace heddle {

/// Begins the result with what is known of the run that it resumes, and the restart after which so many ranks do that.
void begin_result(VariantResult& result, EarlierRun earlier, const std::optional<Restart>& restart,
                  std::int64_t first_step, int ranks);

/// All restarts, for the record of the first step, which has just ended: that is when the last one is over, if this run
/// resumes after it.
const std::vector<Restart>& end_restart(VariantResult& result, bool resumes_after_it);

}  // namespace heddle
