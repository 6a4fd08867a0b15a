// A backbone that trains on one rank, for the benchmarks that time its steps.
#pragma once

#include <cstdint>
#include <memory>

#include "framework/optimizers/optimizer.h"
#include "layers/model.h"
#include "layers/precision.h"
#include "models/models.h"
#include "parallel/rank.h"

namespace heddle {

/// Images of 3 x 112 x 112, without drop path. The loss is half the squared norm of the embeddings: its gradient is the
/// embeddings.
class Backbone {
 public:
  Backbone(ModelType type, std::int64_t batch, Rank& rank, Precision precision = {});
  void step();

 private:
  Rank& rank_;
  std::int64_t batch_;
  Model model_;
  std::unique_ptr<Optimizer> optimizer_;
  Tensor images_;
  std::int64_t step_ = 0;
};

}  // namespace heddle
