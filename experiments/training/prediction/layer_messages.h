// The messages of a step besides those that pass from stage to stage: what the ranks of a stage send each other for
// each layer, and the sums of its gradients, once in a step.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "experiments/training/planning/run_plan.h"
#include "layers/planner/placement_report.h"

namespace heddle {

struct LayerMessages {
  // Seconds of each micro-batch.
  double forward = 0;
  double backward = 0;
  /// The bytes of the gradients that a rank sums once in a step, by the index() of the axes over which it sums them.
  std::array<std::int64_t, AxisSet::count> summed{};
  /// The elements of parameters that a rank's optimizer steps.
  double stepped = 0;
  /// The layer's part of the computing, in the profile's seconds.
  double computing = 0;
};

/// The messages of each application of a placed model, whose `report` gives the seconds. A redistribution counts for
/// its first reader.
std::vector<LayerMessages> layer_messages(const ModelSpec& model, const ModelPlacement& placement,
                                          const PlannerOptions& options, const PlacementReport& report);
/// The messages of a plan's model.
std::vector<LayerMessages> layer_messages(const Experiment& experiment, const RunPlan& plan);

}  // namespace heddle
