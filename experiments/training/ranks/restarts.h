// The restarts of an elastic job in the result of a run that resumes after one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/training/measurements/result.h"

namespace heddle {

/// Begins a result with what is known of the run that it resumes. If it resumes after a restart of the job, adds that
/// restart, after which the job goes on with `ranks` ranks from `first_step`.
void begin_result(VariantResult& result, EarlierRun earlier, const std::optional<Restart>& restart,
                  std::int64_t first_step, int ranks);

/// Called when the first step has ended, which ends the last restart if this run resumes after it. Returns all
/// restarts, for the record of that step.
const std::vector<Restart>& end_restart(VariantResult& result, bool resumes_after_it);

}  // namespace heddle
