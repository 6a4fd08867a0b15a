#include "experiments/training/evaluation/protocol/identification.h"

#include <algorithm>
#include <array>
#include <limits>

#include "experiments/data/parallel_for.h"
#include "framework/error.h"

namespace heddle {

namespace {

/// Eight sums side by side, which the compiler keeps in one vector register; their order is fixed.
float dot(const float* a, const float* b, std::size_t n) {
  std::array<float, 8> sums{};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t k = 0; k < 8; ++k) sums[k] += a[i + k] * b[i + k];
  for (; i < n; ++i) sums[i % 8] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

}  // namespace

double rank1(const Embeddings& gallery, const Embeddings& test) {
  const UnitRows known(gallery.values, gallery.labels.size());
  const UnitRows asked(test.values, test.labels.size());
  if (known.dimension() != asked.dimension())
    fail("evaluation: test embeddings of {} numbers do not compare with a gallery of {}", asked.dimension(),
         known.dimension());
  std::vector<char> right(test.labels.size(), 0);
  // Some test rows at a time, which stay in the cache while the gallery goes by.
  constexpr std::size_t together = 32;
  parallel_for(static_cast<std::int64_t>((right.size() + together - 1) / together), [&](std::int64_t block) {
    const std::size_t begin = static_cast<std::size_t>(block) * together;
    const std::size_t end = std::min(begin + together, right.size());
    std::array<float, together> best{};
    best.fill(-std::numeric_limits<float>::infinity());
    for (std::size_t j = 0; j < gallery.labels.size(); ++j) {
      const float* const row = known.row(static_cast<std::int64_t>(j));
      for (std::size_t i = begin; i < end; ++i) {
        const float cosine = dot(asked.row(static_cast<std::int64_t>(i)), row, known.dimension());
        if (cosine > best[i - begin]) {
          best[i - begin] = cosine;
          right[i] = gallery.labels[j] == test.labels[i] ? 1 : 0;
        }
      }
    }
  });
  return static_cast<double>(std::count(right.begin(), right.end(), 1)) / static_cast<double>(right.size());
}

}  // namespace heddle
