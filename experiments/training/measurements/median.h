// The median of measured values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace heddle {

/// There must be at least one value. The median of an even number of values is the mean of the two in the middle.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace heddle
