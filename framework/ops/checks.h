// The checks of operations before they compute. Every message begins with the operation and prints the value that it
// got.
#pragma once

#include <string_view>

#include "framework/error.h"
#include "framework/tensors/tensor.h"

namespace heddle {

inline void check_floating(std::string_view what, const Tensor& x) {
  if (!is_floating(x.dtype())) fail<InputError>("{}: expected a floating-point type, got {}", what, to_string(x));
}

/// Exact type and shape of a parameter; `name` says which.
inline void check_tensor(std::string_view what, std::string_view name, const Tensor& x, DType dtype,
                         const Shape& shape) {
  if (x.dtype() != dtype || x.shape() != shape)
    fail<InputError>("{}: expected {} {}, got {}", what, name, to_string(dtype, shape), to_string(x));
}

/// `dimension` counted from the front.
inline int checked_dimension(std::string_view what, const Tensor& x, int dimension) {
  const int rank = x.shape().rank();
  const int result = dimension < 0 ? dimension + rank : dimension;
  if (result < 0 || result >= rank) fail<InputError>("{}: {} has no dimension {}", what, to_string(x), dimension);
  return result;
}

}  // namespace heddle
