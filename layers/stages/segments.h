// The ranges of a model's layers that run as recomputed segments: only their inputs are kept, and they run again in the
// backward pass (framework/autograd/recompute.h).
#pragma once

#include <vector>

#include "layers/model_spec.h"
#include "parallel/communicator/shard.h"

namespace heddle {

/// Divides a range of n applications into about sqrt(n) segments of equal length, so that memory grows as sqrt(n) (Chen
/// et al. 2016, "Training deep nets with sublinear memory cost").
std::vector<IndexRange> sqrt_segments(const IndexRange& range);

/// The layers of the range that are marked to be recomputed; consecutive ones form one segment.
std::vector<IndexRange> marked_segments(const ModelSpec& model, const IndexRange& range);

}  // namespace heddle
