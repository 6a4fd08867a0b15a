// Values that every floating-point type holds exactly, and how results are compared with them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "framework/scalars/random.h"

namespace heddle::test::exact_values {

/// Values in [-1, 1] that bf16 holds exactly, so that one reference serves every type.
inline std::vector<double> draw(std::int64_t count, std::uint64_t index) {
  RandomStream stream({.seed = 5}, Purpose::test, 0, index);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = std::round(stream.uniform() * 128 - 64) / 64;
  return values;
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

inline double max_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace heddle::test::exact_values
