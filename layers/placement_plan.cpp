#include "layers/placement_plan.h"

#include "framework/error.h"

namespace heddle {

Placements PlacementPlan::made(int index) const {
  if (index == 0) return input;
  Placements placements;
  for (const Axis axis : all_axes)
    if (mesh.size(axis) > 1) placements[axis] = layers[static_cast<std::size_t>(index) - 1][axis].output;
  return placements;
}

LayerLayout PlacementPlan::layout(const ModelDescription& model, std::size_t application, Mesh::Coordinates at) const {
  return {mesh, at, layers[application], model.input_shapes(model.applications()[application], 1)};
}

PlacementPlan place(const ModelDescription& model, const Mesh& mesh, std::int64_t samples) {
  PlacementPlan plan{.mesh = mesh};
  for (const Axis axis : all_axes)
    if (mesh.size(axis) > 1) plan.input[axis] = plan.output[axis] = Placement::shard(0);
  for (const ModelDescription::Application& application : model.applications()) {
    const std::vector<Shape> inputs = model.input_shapes(application, samples);
    PerAxis<LayerOption> chosen;
    for (const Axis axis : all_axes) {
      if (mesh.size(axis) == 1) continue;
      const Axis default_axis = mesh.size(Axis::tp) > 1 ? Axis::tp : Axis::dp;
      Parallel kind = Parallel::data;
      if (application.wish && application.wish->over.value_or(default_axis) == axis)
        kind = application.wish->kind;
      else if (application.layer->follows()) {
        const Placement made = plan.made(application.inputs[0])[axis];
        if (made.value() == Spread::sharded && made.dimension() > 0) kind = Parallel::group;
        if (made.value() == Spread::replicated) kind = Parallel::replicate;
      }
      auto option = application.layer->option(kind, {axis, mesh.size(axis)}, inputs);
      if (const auto* refusal = std::get_if<Refusal>(&option)) {
        if (application.wish) fail<InputError>("{}: {}", application.name, refusal->why);
        option = application.layer->option(Parallel::data, {axis, mesh.size(axis)}, inputs);
      }
      chosen[axis] = std::get<LayerOption>(option);
    }
    plan.layers.push_back(chosen);
  }
  return plan;
}

}  // namespace heddle
