// The plan of a model on a mesh: what every layer does along every axis, made from shapes alone before a run; the run
// only follows it.
#pragma once

#include <vector>

#include "layers/model_description.h"

namespace heddle {

struct PlacementPlan {
  Mesh mesh{};
  /// What the model takes and gives: the head takes other samples on every rank, along dp and tp. Along pp everything
  /// is R: a value lies with one stage.
  Placements input{};
  Placements output{};
  /// What each application's layer does.
  std::vector<PerAxis<LayerOption>> layers{};

  /// Where value `index` lies when it is made.
  Placements made(int index) const;
  LayerLayout layout(const ModelDescription& model, std::size_t application, Mesh::Coordinates at) const;
};

}  // namespace heddle
