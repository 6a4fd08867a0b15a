// Converts the elements of a saved tensor to f32, the type that exports are written in.
#pragma once

#include <vector>

#include "framework/tensors/tensor.h"

namespace heddle {

/// The tensor has a floating-point type or i8.
inline std::vector<float> to_floats(const Tensor& tensor) {
  if (tensor.dtype() == DType::i8) {
    const std::vector<std::int8_t> elements = tensor.to_host<std::int8_t>();
    return {elements.begin(), elements.end()};
  }
  if (tensor.dtype() == DType::f32) return tensor.to_host<float>();
  const std::vector<double> elements = tensor.to_doubles();
  return {elements.begin(), elements.end()};
}

}  // namespace heddle
