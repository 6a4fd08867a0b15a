#include "experiments/training/planning/fastest_placements.h"

#include <algorithm>

#include "experiments/training/planning/model_layout.h"
#include "experiments/training/planning/planned_head.h"
#include "framework/error.h"
#include "framework/tensors/memory.h"

namespace heddle {

namespace {

ModelPlacement fastest_placement(const Experiment& experiment, const ModelSpec& model, const PlannerOptions& options) {
  try {
    return place(model, options);
  } catch (const InputError& error) {
    if (!options.memory_budget) throw;
    const std::int64_t budget = experiment.min_budget(options.mesh.size());
    const std::int64_t head = planned_head_bytes(experiment, embedding_size(model), options.mesh);
    fail<InputError>("{} (the head takes {} of the {} of {}memory_budget)", error.what(),
                     format_bytes(std::min(head, budget)), format_bytes(budget),
                     budget == experiment.memory_budget ? "" : "ranks.");
  }
}

}  // namespace

std::vector<PlacementConfig> fastest_placements(const Experiment& experiment, const PlannerEffort& effort) {
  const ModelSpec model = model_of(experiment, image_shape(experiment.data));
  PlannerOptions options = planner_options(experiment, model, mesh_of(experiment));
  options.automatic = true;
  options.effort = effort;
  const ModelPlacement fastest = fastest_placement(experiment, model, options);
  std::vector<Axis> axes;
  for (const Axis axis : layer_axes)
    if (options.mesh.size(axis) > 1) axes.push_back(axis);
  if (axes.empty()) return {};
  std::vector<PlacementConfig> placements;
  for (std::size_t i = 0; i < fastest.layers.size(); ++i) {
    const PerAxis<LayerOption>& placed = fastest.layers[i];
    PlacementConfig& placement = placements.emplace_back();
    placement = {.layers = model.applications()[i].name, .parallel = placed[axes[0]].kind, .over = axes[0]};
    if (axes.size() > 1) placement.other = placed[axes[1]].kind;
  }
  return placements;
}

}  // namespace heddle
