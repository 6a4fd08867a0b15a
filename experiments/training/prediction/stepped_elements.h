// The elements of parameters that a rank's optimizer steps, whose share of all elements is its share of the update's
// time.
#pragma once

#include <span>

#include "experiments/training/experiment.h"
#include "experiments/training/planning/run_plan.h"
#include "experiments/training/prediction/layer_messages.h"

namespace heddle {

/// Whether a rank of the pipeline has a part of the heads' weights.
bool trains_head(const Experiment& experiment, const RunPlan& plan, int pipeline_rank);

/// The number of trained elements of the model and of replicated heads, at least 1. The weights of other heads are
/// stepped with their gradient.
double trained_elements(const Experiment& experiment, const RunPlan& plan);
/// `layers`: of each application of the plan's model.
double stepped_elements(const Experiment& experiment, const RunPlan& plan, std::span<const LayerMessages> layers,
                        int pipeline_rank);

}  // namespace heddle
