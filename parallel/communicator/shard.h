// How a tensor is distributed over ranks, and which part of it each rank holds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/tensors/index_range.h"

namespace heddle {

/// Every rank holds all of the tensor, a part of it, or a term of a sum.
enum class Spread { replicated, sharded, partial };

/// Part `index` of the range 0 .. total-1, cut into `parts` parts. Where `parts` does not divide `total`, each of the
/// first total % parts parts is one longer (InsightFace's formula). With more parts than elements the last parts are
/// empty. Batches, classes and channels are all sharded this way.
constexpr IndexRange shard(std::int64_t total, std::int64_t parts, std::int64_t index) {
  const std::int64_t least = total / parts;
  const std::int64_t longer = total % parts;
  return {least * index + std::min(index, longer), least + (index < longer ? 1 : 0)};
}

}  // namespace heddle
