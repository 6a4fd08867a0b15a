// A layer: parameters, buffers and a forward function. It never loops over ranks or micro-batches; what it may know of
// the run stands in the Pass, and of its place on the mesh in the layout it was built with.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/autograd/autograd.h"
#include "layers/parameter.h"
#include "parallel/communicator/shard.h"
#include "parallel/rank.h"

namespace heddle {

/// One traversal of a model over one micro-batch, by all ranks that share it.
struct Pass {
  Rank& rank;
  bool training = false;
  std::int64_t step = 0;
  /// Positions in the global batch of the micro-batch's samples, those of all data-parallel ranks together.
  ShardRange samples{};
  /// The same traversal was made before: what it tells of the samples is known already.
  bool recomputing = false;
};

class Layer {
 public:
  virtual ~Layer() = default;

  /// Output of one application, from this rank's part of its inputs to its part of the output. The number of inputs is
  /// the layer's own; most take one.
  virtual Variable forward(std::span<const Variable> inputs, const Pass& pass) = 0;
  /// In the order of the published models, so that weights travel.
  virtual std::vector<Parameter*> parameters() { return {}; }
  virtual std::vector<Buffer*> buffers() { return {}; }
  /// Once a step, after its last micro-batch, on all ranks together: running statistics.
  virtual void end_step(Rank& /*rank*/) {}
  /// In place of that after a step that is not taken: nothing is learned from it.
  virtual void drop_step() {}
};

using LayerPointer = std::unique_ptr<Layer>;

}  // namespace heddle
