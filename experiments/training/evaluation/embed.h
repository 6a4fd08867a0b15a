// Embeddings of a whole split, computed by all ranks together.
#pragma once

#include <vector>

#include "experiments/training/evaluation/evaluation.h"
#include "experiments/training/trainer.h"

namespace heddle {

struct EmbeddedSplit {
  std::vector<float> values;  // [images, d]
  std::vector<std::int64_t> labels;
  Embeddings view() const { return {values, labels}; }
};

/// Each rank embeds its share of the images, then rank 0 receives all embeddings; other ranks, and all ranks on plan,
/// get an empty result. With `flip`, the embeddings of an image and of its mirror image are added. A collective call.
EmbeddedSplit embed_split(const EvaluationConfig& config, const Dataset& dataset, Split split, Trainer& trainer);

}  // namespace heddle
