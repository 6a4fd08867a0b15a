// How `total` things fall to `parts` ranks when the parts need not divide them: the first total % parts ranks hold one
// more (InsightFace's formula). Batches, classes and channels are all sharded this way.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/tensors/shard_range.h"

namespace heddle {

/// Part `index` of 0 .. total-1. More parts than things is legal: the last ones are empty.
constexpr ShardRange shard(std::int64_t total, std::int64_t parts, std::int64_t index) {
  const std::int64_t least = total / parts;
  const std::int64_t longer = total % parts;
  return {least * index + std::min(index, longer), least + (index < longer ? 1 : 0)};
}

}  // namespace heddle
