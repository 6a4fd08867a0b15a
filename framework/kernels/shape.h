// Moves of elements between shapes. Slices and concatenations are made of `copy_columns`; a reshape moves nothing.
#pragma once

#include <cstdint>
#include <span>

#include "framework/tensors/tensor.h"

namespace heddle {

/// A block of columns that is copied between two matrices with equally many rows.
struct ColumnBlock {
  std::int64_t rows = 0;
  std::int64_t columns = 0;    // of the block
  std::int64_t x_columns = 0;  // of the matrix that is read, [rows, x_columns]
  std::int64_t x_begin = 0;    // its first column that is read
  std::int64_t y_columns = 0;  // of the matrix that is written, [rows, y_columns]
  std::int64_t y_begin = 0;    // its first column that is written
};

class ShapeKernels {
 public:
  virtual ~ShapeKernels() = default;

  /// y's dimension i is x's dimension order[i].
  virtual void transpose(const Tensor& x, std::span<const int> order, Tensor& y) const = 0;
  /// y[r, y_begin + j] = x[r, x_begin + j] for r < rows, j < columns, where x and y are seen as the block says. Any
  /// dtype.
  virtual void copy_columns(const ColumnBlock& block, const Tensor& x, Tensor& y) const = 0;
};

/// The kernels of one backend, which defines each of them for its own Context (framework/backends/kernels_on.h).
template <class Context>
class ShapeKernelsOn final : public ShapeKernels {
 public:
  explicit ShapeKernelsOn(Context& context) : context_(context) {}

  void transpose(const Tensor& x, std::span<const int> order, Tensor& y) const override;
  void copy_columns(const ColumnBlock& block, const Tensor& x, Tensor& y) const override;

 private:
  Context& context_;
};

}  // namespace heddle
