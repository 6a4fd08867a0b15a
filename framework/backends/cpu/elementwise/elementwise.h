// The parts of the cpu's elementwise kernels that have files of their own; elementwise.cpp composes them.
#pragma once

#include <array>
#include <span>

#include "framework/kernels/elementwise.h"

namespace heddle::cpu {

// reduce.cpp
void reduce(ReduceOp op, const Tensor& x, std::array<std::int64_t, 3> view, Tensor& y);
void reduce_max_backward(const Tensor& x, const Tensor& y, std::array<std::int64_t, 3> view, const Tensor& dy,
                         Tensor& dx);
// combine.cpp
void combine(ReduceOp op, std::span<const Tensor> parts, std::span<Tensor> results);
// moves.cpp
void cast(const Tensor& x, Tensor& y);
void transpose(const Tensor& x, std::span<const int> order, Tensor& y);
void copy_columns(const Tensor& x, std::int64_t x_columns, std::int64_t x_begin, Tensor& y, std::int64_t y_columns,
                  std::int64_t y_begin, std::int64_t rows, std::int64_t columns);
// broadcast.cpp
void binary(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y);

}  // namespace heddle::cpu
