// Moves of elements between shapes. Slices and concatenations are made of `copy_columns`; a reshape moves nothing.
#pragma once

#include <cstdint>
#include <span>

#include "framework/tensors/tensor.h"

namespace heddle {

class ShapeKernels {
 public:
  virtual ~ShapeKernels() = default;

  /// y's dimension i is x's dimension order[i].
  virtual void transpose(const Tensor& x, std::span<const int> order, Tensor& y) const = 0;
  /// Copies a block of rows: y[r, y_begin + j] = x[r, x_begin + j] for r < rows, j < columns, where x is seen as
  /// [rows, x_columns] and y as [rows, y_columns]. Any dtype.
  virtual void copy_columns(const Tensor& x, std::int64_t x_columns, std::int64_t x_begin, Tensor& y,
                            std::int64_t y_columns, std::int64_t y_begin, std::int64_t rows,
                            std::int64_t columns) const = 0;
};

}  // namespace heddle
