// What the random draws of a layer depend on: its stream, and the part of the global batch that a rank has.
#pragma once

#include <vector>

#include "framework/scalars/draw.h"
#include "layers/layer.h"
#include "layers/layer_layout.h"

namespace heddle {

/// The draws of one layer on one rank. They are computed from the global positions of elements, and so do not depend on
/// how the layer is split.
class LayerDraws {
 public:
  LayerDraws(const DrawKey& stream, LayerLayout layout);
  /// Takes the model's next random stream.
  static LayerDraws of_dropout(Construction& construction, LayerLayout layout);

  DrawKey key(const Pass& pass) const;
  /// The rank's part of the layer's first input; the samples are positions in the global batch.
  std::vector<IndexRange> box(const Pass& pass) const;
  const LayerLayout& layout() const { return layout_; }

 private:
  DrawKey stream_;
  LayerLayout layout_;
};

}  // namespace heddle
