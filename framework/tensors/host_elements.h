// Elements in host memory whose type is known at run time, such as those of a file.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "framework/tensors/dtype.h"

namespace heddle {

/// Row-major elements of a floating-point type as another one, rounded to nearest.
std::vector<std::byte> converted(std::span<const std::byte> elements, DType from, DType to);

/// The first element that is not finite; nothing if all are, as those of integers.
std::optional<double> first_not_finite(std::span<const std::byte> elements, DType dtype);

}  // namespace heddle
