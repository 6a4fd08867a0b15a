// Which stretches of a model's layers run as recomputed segments: their inputs are kept, and they run again in
// backward (framework/autograd/recompute.h).
#pragma once

#include <vector>

#include "layers/model_description.h"
#include "parallel/communicator/shard.h"

namespace heddle {

/// About sqrt(n) segments of equal length that make up the range of n applications, so that memory grows as sqrt(n)
/// (Chen et al. 2016, "Training deep nets with sublinear memory cost").
std::vector<ShardRange> sqrt_segments(const ShardRange& range);

/// The layers of the range that are marked to be recomputed, neighbours in one segment.
std::vector<ShardRange> marked_segments(const ModelDescription& model, const ShardRange& range);

}  // namespace heddle
