// Embeddings of a whole split, computed by all ranks together.
#pragma once

#include <vector>

#include "experiments/training/evaluation.h"
#include "experiments/training/trainer.h"

namespace heddle {

struct EmbeddedSplit {
  std::vector<float> values;  // [images, d]
  std::vector<std::int64_t> labels;
  Embeddings view() const { return {values, labels}; }
};

/// Each rank embeds its share of the images, then rank 0 gets all; the others, and plan, get nothing. With flip, an
/// embedding is the sum of those of the image and of its mirror image. A collective call.
EmbeddedSplit embed_split(const EvaluationConfig& config, const Dataset& dataset, Split split, Trainer& trainer);

}  // namespace heddle
