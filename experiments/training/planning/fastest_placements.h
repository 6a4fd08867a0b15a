// The planner's own choice of placements, in the form in which an experiment names them.
#pragma once

#include <vector>

#include "experiments/training/experiment.h"
#include "layers/planner/placement_costs.h"

namespace heddle {

/// The placement of every layer, in place of model.placements, with which a step is estimated to be shortest within
/// memory_budget; empty if the mesh has one rank along dp and tp. InputError if no placement fits into the budget.
std::vector<PlacementConfig> fastest_placements(const Experiment& experiment, const PlannerEffort& effort = {});

}  // namespace heddle
