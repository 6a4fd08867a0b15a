// The cpu backend's moves of elements between shapes.
#pragma once

#include "framework/kernels/shape.h"

namespace heddle::cpu {

class CpuShape final : public ShapeKernels {
 public:
  void transpose(const Tensor& x, std::span<const int> order, Tensor& y) const override;
  void copy_columns(const ColumnBlock& block, const Tensor& x, Tensor& y) const override;
};

}  // namespace heddle::cpu
