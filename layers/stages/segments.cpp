#include "layers/stages/segments.h"

#include <cmath>

namespace heddle {

std::vector<IndexRange> sqrt_segments(const IndexRange& range) {
  const auto count = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(range.size))));
  std::vector<IndexRange> segments;
  for (std::int64_t i = 0; i < count; ++i) {
    const IndexRange part = shard(range.size, count, i);
    segments.push_back({range.begin + part.begin, part.size});
  }
  return segments;
}

std::vector<IndexRange> marked_segments(const ModelSpec& model, const IndexRange& range) {
  std::vector<IndexRange> segments;
  for (std::int64_t i = range.begin; i < range.end(); ++i) {
    if (!model.applications()[static_cast<std::size_t>(i)].recomputed) continue;
    if (segments.empty() || segments.back().end() != i) segments.push_back({i, 0});
    ++segments.back().size;
  }
  return segments;
}

}  // namespace heddle
