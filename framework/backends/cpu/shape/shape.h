// The cpu backend's moves of elements between shapes.
#pragma once

#include "framework/kernels/shape.h"

namespace heddle::cpu {

class CpuShape final : public ShapeKernels {
 public:
  void transpose(const Tensor& x, std::span<const int> order, Tensor& y) const override;
  void copy_columns(const Tensor& x, std::int64_t x_columns, std::int64_t x_begin, Tensor& y, std::int64_t y_columns,
                    std::int64_t y_begin, std::int64_t rows, std::int64_t columns) const override;
};

}  // namespace heddle::cpu
