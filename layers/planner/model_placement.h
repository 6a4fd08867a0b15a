// The placement of a model on a mesh: how every layer is placed along every axis. It is made from shapes alone, before
// a run that only follows it.
#pragma once

#include <vector>

#include "layers/model_spec.h"

namespace heddle {

struct ModelPlacement {
  Mesh mesh{};
  /// The placements of the model's input and output. The head takes different samples on every rank along dp and tp.
  /// Along pp everything is R, since a value belongs to one stage.
  Placements input{};
  Placements output{};
  /// How the layer of each application is placed.
  std::vector<PerAxis<LayerOption>> layers{};

  /// The placement in which value `index` is made.
  Placements made(int index) const;
  LayerLayout layout(const ModelSpec& model, std::size_t application, Mesh::Coordinates at) const;
};

}  // namespace heddle
