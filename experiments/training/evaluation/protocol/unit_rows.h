// Embeddings scaled to length 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle {

/// Scales a row to length 1. A row without direction (zero, or not finite) becomes NaN, which no comparison accepts.
/// Values are rounded to multiples of 2^-26, which are f32 as well. The dot products of rows are then multiples of
/// 2^-52 below 2 at every step of the sum, which f64 holds exactly: they have the same bits in any order of the sum.
void scale_to_unit(std::span<float> row);

/// The dot product of two such rows, without a rounding error.
double exact_dot(std::span<const float> a, std::span<const float> b);

/// Row-major embeddings [images, dimension], scaled to unit vectors.
class UnitRows {
 public:
  /// Error unless there is at least one image, and `values` has the same positive number of values for each.
  UnitRows(std::span<const float> values, std::size_t images);

  std::size_t size() const { return size_; }
  std::size_t dimension() const { return dimension_; }
  std::span<const float> row(std::int64_t i) const {
    return {&values_[static_cast<std::size_t>(i) * dimension_], dimension_};
  }
  std::span<const float> values() const { return values_; }

 private:
  std::vector<float> values_;
  std::size_t size_ = 0;
  std::size_t dimension_ = 0;
};

}  // namespace heddle
