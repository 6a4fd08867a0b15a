#include "framework/tensors/shape.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace heddle {

Shape::Shape(std::span<const std::int64_t> dimensions) : rank_(static_cast<int>(dimensions.size())) {
  if (rank_ > max_rank) fail<InputError>("shape: expected at most {} dimensions, got {}", max_rank, rank_);
  std::int64_t elements = 1;
  for (const std::int64_t size : dimensions) {
    if (size < 0) fail<InputError>("shape: negative dimension in [{}]", fmt::join(dimensions, ","));
    // A dimension of 0 does not allow the others to be huge, because products of some of the dimensions are formed,
    // too.
    const std::int64_t at_least_one = std::max<std::int64_t>(size, 1);
    if (elements > max_elements / at_least_one)
      fail<InputError>("shape: too many elements in [{}]", fmt::join(dimensions, ","));
    elements *= at_least_one;
  }
  std::copy(dimensions.begin(), dimensions.end(), dimensions_.begin());
}

std::int64_t Shape::product(int first, int last) const {
  std::int64_t result = 1;
  for (int i = first; i < last; ++i) result *= (*this)[i];
  return result;
}

Shape Shape::with(int dimension, std::int64_t size) const {
  auto copy = dimensions_;
  copy[static_cast<std::size_t>(dimension)] = size;
  return Shape(std::span<const std::int64_t>(copy.data(), static_cast<std::size_t>(rank_)));
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.dimensions(), ","));
}
std::string to_string(DType dtype, const Shape& shape) {
  return fmt::format("{}{}", name_of(dtype), to_string(shape));
}

}  // namespace heddle
