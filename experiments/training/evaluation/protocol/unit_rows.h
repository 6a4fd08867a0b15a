// Embeddings scaled to length 1, and the distances between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "experiments/training/evaluation/protocol/pairs.h"

namespace heddle {

/// Row-major embeddings [images, dimension] as unit vectors. A row without direction (zero, or not finite) becomes NaN,
/// which no comparison accepts.
class UnitRows {
 public:
  /// Error unless there is at least one image, and `values` has the same positive number of values for each.
  UnitRows(std::span<const float> values, std::size_t images);

  std::size_t size() const { return size_; }
  std::size_t dimension() const { return dimension_; }
  const float* row(std::int64_t i) const { return &values_[static_cast<std::size_t>(i) * dimension_]; }
  std::span<const float> values() const { return values_; }

 private:
  std::vector<float> values_;
  std::size_t size_ = 0;
  std::size_t dimension_ = 0;
};

/// A pair that was compared: the squared distance of its unit vectors, from 0 to 4, and whether it shows one person.
/// The distance is infinite if one of the two has no direction.
struct ComparedPair {
  double distance = 0;
  bool same = false;
};

/// Compares pairs on the calling thread's OpenMP team; the results are in the order of the pairs. Error if a pair names
/// a row that does not exist.
std::vector<ComparedPair> compare(const UnitRows& rows, std::span<const Pair> pairs);

}  // namespace heddle
