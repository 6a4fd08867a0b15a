// The cuda backend's moves of elements between shapes.
#pragma once

#include "framework/backends/cuda/device/context.h"
#include "framework/kernels/shape.h"

namespace heddle::cuda {

class CudaShape final : public ShapeKernels {
 public:
  explicit CudaShape(const Context& context) : context_(context) {}

  void transpose(const Tensor& x, std::span<const int> order, Tensor& y) const override;
  void copy_columns(const ColumnBlock& block, const Tensor& x, Tensor& y) const override;

 private:
  const Context& context_;
};

}  // namespace heddle::cuda
