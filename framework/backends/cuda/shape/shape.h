// The cuda backend's moves of elements between shapes.
#pragma once

#include "framework/backends/cuda/device/context.h"
#include "framework/kernels/shape.h"

namespace heddle::cuda {

class CudaShape final : public ShapeKernels {
 public:
  explicit CudaShape(const Context& context) : context_(context) {}

  void transpose(const Tensor& x, std::span<const int> order, Tensor& y) const override;
  void copy_columns(const Tensor& x, std::int64_t x_columns, std::int64_t x_begin, Tensor& y, std::int64_t y_columns,
                    std::int64_t y_begin, std::int64_t rows, std::int64_t columns) const override;

 private:
  const Context& context_;
};

}  // namespace heddle::cuda
