// Chooses the placement of every layer so that a step spends the least time on communication or, with `automatic`, on
// communication and computing together.
#pragma once

#include "layers/planner/placement_costs.h"

namespace heddle {

/// Whether a layer may be placed in both ways, along different axes.
bool may_combine(Parallel a, Parallel b);

/// Chooses how each layer is placed along dp and tp; stage_balance.h divides the layers among stages along pp. A layer
/// is placed as the user requested along the axis of the request, else as `data`, or, if it follows its neighbours, in
/// any way that it offers. With `automatic` every layer may be placed in any way that it offers. No layer is column,
/// row or group along two axes, nor parameter along two.
///
/// The result has the least communication time per step, where a redistribution counts once for all readers that want a
/// value in the same placement, and of such placements the least computing time; with `automatic` it has the least sum
/// of both. It is found by dynamic programming over the values that are alive between two layers: in which placement
/// each was made, and to which it has been redistributed. The result is exact unless more than
/// PlannerEffort::max_states are possible at once, in which case the cheapest are kept. With a budget
/// (shortest_path_within) it is exact, or within a bound for models of hundreds of layers.
///
/// InputError names the layer that cannot be placed as requested and gives the reason, or says which budget would be
/// enough.
ModelPlacement place(const ModelSpec& model, const PlannerOptions& options);

}  // namespace heddle
