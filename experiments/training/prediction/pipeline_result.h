// The part of a pipeline's result that is known before it runs: its schedule, its stages, and the expected figures.
#pragma once

#include "experiments/training/experiment.h"
#include "experiments/training/measurements/result.h"
#include "experiments/training/planning/run_plan.h"

namespace heddle {

/// All of it but the predicted step time, for which the stages must be measured (`predicted_seconds`).
PipelineResult pipeline_of(const Experiment& experiment, const RunPlan& plan);

}  // namespace heddle
