#include "layers/stages/segments.h"

#include <cmath>

namespace heddle {

std::vector<ShardRange> sqrt_segments(const ShardRange& range) {
  const auto count = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(range.size))));
  std::vector<ShardRange> segments;
  for (std::int64_t i = 0; i < count; ++i) {
    const ShardRange part = shard(range.size, count, i);
    segments.push_back({range.begin + part.begin, part.size});
  }
  return segments;
}

std::vector<ShardRange> marked_segments(const ModelDescription& model, const ShardRange& range) {
  std::vector<ShardRange> segments;
  for (std::int64_t i = range.begin; i < range.end(); ++i) {
    if (!model.applications()[static_cast<std::size_t>(i)].recomputed) continue;
    if (segments.empty() || segments.back().end() != i) segments.push_back({i, 0});
    ++segments.back().size;
  }
  return segments;
}

}  // namespace heddle
