// A tensor's dimensions: at most six, held inline. Printed `[32,512]`.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "framework/tensors/dtype.h"

namespace heddle {

class Shape {
 public:
  static constexpr int max_rank = 6;
  /// Small enough that the bytes of many such tensors fit into 64 bits.
  static constexpr std::int64_t max_elements = std::int64_t{1} << 56;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dimensions)  // NOLINT(google-explicit-constructor): reads as [a, b]
      : Shape(std::span(dimensions.begin(), dimensions.size())) {}
  /// InputError on more than six dimensions, a negative one, or a product past 2^56.
  explicit Shape(std::span<const std::int64_t> dimensions);

  int rank() const { return rank_; }
  std::int64_t operator[](int dimension) const { return dimensions_[static_cast<std::size_t>(dimension)]; }
  std::int64_t back() const { return (*this)[rank_ - 1]; }
  std::span<const std::int64_t> dimensions() const { return {dimensions_.data(), static_cast<std::size_t>(rank_)}; }
  /// Number of elements; 1 for a scalar's shape [].
  std::int64_t numel() const { return product(0, rank_); }
  /// Product of the dimensions first .. last-1.
  std::int64_t product(int first, int last) const;
  /// This shape with one dimension replaced.
  Shape with(int dimension, std::int64_t size) const;
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, max_rank> dimensions_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);
/// `f32[32,512]`.
std::string to_string(DType dtype, const Shape& shape);

}  // namespace heddle
