// A layer: parameters, buffers and a forward function. It never loops over ranks or micro-batches; what it may know of
// the run stands in the Pass.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/autograd.h"
#include "layers/parameter.h"
#include "parallel/rank.h"

namespace heddle {

/// One traversal of a model over this rank's part of one micro-batch.
struct Pass {
  Rank& rank;
  bool training = false;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  // position in the global batch of this traversal's first sample
};

class Layer {
 public:
  virtual ~Layer() = default;

  /// Output of one application. The number of inputs is the layer's own; most take one.
  virtual Variable forward(std::span<const Variable> inputs, const Pass& pass) = 0;
  /// In the order of the published models, so that weights travel.
  virtual std::vector<Parameter*> parameters() { return {}; }
  virtual std::vector<Buffer*> buffers() { return {}; }
  /// Once a step, after its last micro-batch, on all data-parallel ranks together: running statistics.
  virtual void end_step(Rank& /*rank*/) {}
};

using LayerPointer = std::unique_ptr<Layer>;

}  // namespace heddle
