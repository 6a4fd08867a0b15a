// Where every layer goes: the plan with the least communication time over the whole model.
#pragma once

#include "layers/planner/plan_costs.h"

namespace heddle {

/// Chooses what each layer does along dp and tp; how the layers fall to stages along pp is another question
/// (stage_balance.h). A layer is what the user wished along the wish's axis;
/// else `data`, or, if it follows its neighbours, whatever it offers; with `automatic` every layer may be all that it
/// offers. No layer is column, row or group along two axes, nor parameter along two.
///
/// The plan has the least communication time of a step, redistributions counted once for all readers that want a value
/// alike, and of such plans the least computing time; with `automatic` the least sum of both. It is found by dynamic
/// programming over the values that are alive between two layers: where each was made, and what it was already
/// redistributed to. That is exact unless more than 50,000 such states are possible at once; then the cheapest are
/// followed. For a budget see shortest_path_within: exact, or within a bound for models of hundreds of layers.
///
/// InputError names the layer that cannot be placed as wished, and why, or says what fits if the budget is too small.
PlacementPlan place(const ModelDescription& model, const PlannerOptions& options);

}  // namespace heddle
