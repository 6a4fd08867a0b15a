#include "layers/planner/model_placement.h"

namespace heddle {

Placements ModelPlacement::made(int index) const {
  if (index == 0) return input;
  Placements placements;
  for (const Axis axis : layer_axes)
    if (mesh.size(axis) > 1) placements[axis] = layers[static_cast<std::size_t>(index) - 1][axis].output;
  return placements;
}

LayerLayout ModelPlacement::layout(const ModelSpec& model, std::size_t application, Mesh::Coordinates at) const {
  return {mesh, at, layers[application], model.input_shapes(model.applications()[application], 1)};
}

}  // namespace heddle
