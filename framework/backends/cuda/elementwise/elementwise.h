// The parts of the cuda backend's elementwise kernels that have files of their own; elementwise.cu composes them.
#pragma once

#include <array>
#include <span>

#include "framework/backends/cuda/device/context.h"
#include "framework/kernels/elementwise.h"

namespace heddle::cuda {

// reduce.cu
void reduce(const Context& context, ReduceOp op, const Tensor& x, std::array<std::int64_t, 3> view, Tensor& y);
void reduce_max_backward(const Context& context, const Tensor& x, const Tensor& y, std::array<std::int64_t, 3> view,
                         const Tensor& dy, Tensor& dx);
// combine.cu
void combine(const Context& context, ReduceOp op, std::span<const Tensor> parts, std::span<Tensor> results);
// moves.cu
void cast(const Context& context, const Tensor& x, Tensor& y);
void transpose(const Context& context, const Tensor& x, std::span<const int> order, Tensor& y);
void copy_columns(const Context& context, const Tensor& x, std::int64_t x_columns, std::int64_t x_begin, Tensor& y,
                  std::int64_t y_columns, std::int64_t y_begin, std::int64_t rows, std::int64_t columns);
// broadcast.cu
void binary(const Context& context, BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y);
// prelu.cu
void prelu(const Context& context, const Tensor& x, const Tensor& slope, Tensor& y);
void prelu_backward(const Context& context, const Tensor& x, const Tensor& slope, const Tensor& dy, Tensor& dx,
                    Tensor& dslope);

}  // namespace heddle::cuda
