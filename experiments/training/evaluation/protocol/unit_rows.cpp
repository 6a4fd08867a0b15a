#include "experiments/training/evaluation/protocol/unit_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/data/parallel_for.h"
#include "framework/error.h"

namespace heddle {

UnitRows::UnitRows(std::span<const float> values, std::size_t images)
    : values_(values.begin(), values.end()), size_(images) {
  if (images == 0 || values.empty() || values.size() % images != 0)
    fail("evaluation: {} numbers are not the embeddings of {} images", values.size(), images);
  dimension_ = values.size() / images;
  for (std::size_t i = 0; i < images; ++i) {
    float* const row = &values_[i * dimension_];
    double norm = 0;
    for (std::size_t k = 0; k < dimension_; ++k) norm += static_cast<double>(row[k]) * row[k];
    const double scale =
        norm > 0 && std::isfinite(norm) ? 1 / std::sqrt(norm) : std::numeric_limits<double>::quiet_NaN();
    for (std::size_t k = 0; k < dimension_; ++k) row[k] = static_cast<float>(row[k] * scale);
  }
}

std::vector<ComparedPair> compare(const UnitRows& rows, std::span<const Pair> pairs) {
  const auto is_row = [&](std::int64_t i) { return i >= 0 && static_cast<std::size_t>(i) < rows.size(); };
  std::vector<ComparedPair> compared(pairs.size());
  constexpr std::size_t chunk = 1024;
  const std::size_t chunks = (pairs.size() + chunk - 1) / chunk;
  parallel_for(static_cast<std::int64_t>(chunks), [&](std::int64_t c) {
    const std::size_t first = static_cast<std::size_t>(c) * chunk;
    for (std::size_t i = first; i < std::min(first + chunk, pairs.size()); ++i) {
      const Pair& pair = pairs[i];
      if (!is_row(pair.first) || !is_row(pair.second))
        fail("evaluation: pair {} compares images {} and {}, but there are {}", i, pair.first, pair.second,
             rows.size());
      const float* const a = rows.row(pair.first);
      const float* const b = rows.row(pair.second);
      double sum = 0;
      for (std::size_t k = 0; k < rows.dimension(); ++k) {
        const double difference = static_cast<double>(a[k]) - b[k];
        sum += difference * difference;
      }
      compared[i] = {std::isnan(sum) ? std::numeric_limits<double>::infinity() : sum, pair.same};
    }
  });
  return compared;
}

}  // namespace heddle
