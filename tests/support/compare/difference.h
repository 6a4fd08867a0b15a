// The difference between values.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

namespace heddle::test {

/// The largest difference over the largest value of b; infinite if an element is NaN in only one of a and b.
inline double difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double apart = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return std::numeric_limits<double>::infinity();
    if (std::isnan(a[i])) continue;
    if (a[i] != b[i]) apart = std::max(apart, std::abs(a[i] - b[i]));
    if (std::isfinite(b[i])) size = std::max(size, std::abs(b[i]));
  }
  return size == 0 ? apart : apart / size;
}

}  // namespace heddle::test
