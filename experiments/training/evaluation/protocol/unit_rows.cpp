#include "experiments/training/evaluation/protocol/unit_rows.h"

#include <cmath>
#include <limits>

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
    constexpr double unit = 0x1p-26;
    for (std::size_t k = 0; k < dimension_; ++k)
      row[k] = static_cast<float>(std::nearbyint(static_cast<float>(row[k] * scale) / unit) * unit);
  }
}

}  // namespace heddle
