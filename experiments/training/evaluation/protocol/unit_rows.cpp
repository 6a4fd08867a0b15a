#include "experiments/training/evaluation/protocol/unit_rows.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "framework/error.h"

namespace heddle {

namespace {

using FourFloats = float __attribute__((vector_size(16)));
using FourDoubles = double __attribute__((vector_size(32)));

FourDoubles widened(const float* from) {
  FourFloats values;
  std::memcpy(&values, from, sizeof(values));
  return __builtin_convertvector(values, FourDoubles);
}

}  // namespace

void scale_to_unit(std::span<float> row) {
  double norm = 0;
  for (const float x : row) norm += static_cast<double>(x) * x;
  const double scale = norm > 0 && std::isfinite(norm) ? 1 / std::sqrt(norm) : std::numeric_limits<double>::quiet_NaN();
  constexpr double unit = 0x1p-26;
  for (float& x : row) x = static_cast<float>(std::nearbyint(static_cast<float>(x * scale) / unit) * unit);
}

double exact_dot(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t lanes = 4;
  constexpr std::size_t chains = 4;  // independent sums, which hide the latency of a multiply-add
  std::array<FourDoubles, chains> sums{};
  std::size_t i = 0;
  for (; i + chains * lanes <= a.size(); i += chains * lanes)
#pragma GCC unroll 4
    for (std::size_t k = 0; k < chains; ++k)
      sums[k] += widened(a.data() + i + k * lanes) * widened(b.data() + i + k * lanes);
  double sum = 0;
  for (; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  for (const FourDoubles& part : sums)
    for (std::size_t k = 0; k < lanes; ++k) sum += part[k];
  return sum;
}

UnitRows::UnitRows(std::span<const float> values, std::size_t images)
    : values_(values.begin(), values.end()), size_(images) {
  if (images == 0 || values.empty() || values.size() % images != 0)
    fail("evaluation: {} numbers are not the embeddings of {} images", values.size(), images);
  dimension_ = values.size() / images;
  for (std::size_t i = 0; i < images; ++i) scale_to_unit(std::span(values_).subspan(i * dimension_, dimension_));
}

}  // namespace heddle
