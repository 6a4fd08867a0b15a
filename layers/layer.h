// A layer: parameters, buffers and a forward function. It never loops over ranks or micro-batches. The Pass describes
// the run to it; the layout with which it was built describes its place on the mesh.
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

/// One traversal of a model with one micro-batch, by all ranks that share the micro-batch.
struct Pass {
  Rank& rank;
  bool training = false;
  std::int64_t step = 0;
  /// The micro-batch's samples, of all data-parallel ranks together, as positions in the global batch.
  IndexRange samples{};
  /// Whether the same traversal was made before, so that statistics of the samples are known already.
  bool recomputing = false;
};

class Layer {
 public:
  virtual ~Layer() = default;

  /// Computes this rank's part of the output from its parts of the inputs. Most layers take one input.
  virtual Variable forward(std::span<const Variable> inputs, const Pass& pass) = 0;
  /// In the order of the published models, so that weights can be exchanged with them.
  virtual std::vector<Parameter*> parameters() { return {}; }
  virtual std::vector<Buffer*> buffers() { return {}; }
  /// Called once per step, after its last micro-batch, on all ranks together: updates running statistics.
  virtual void end_step(Rank& /*rank*/) {}
  /// Called instead after a step that is skipped: running statistics stay as they are.
  virtual void drop_step() {}
};

using LayerPointer = std::unique_ptr<Layer>;

}  // namespace heddle
