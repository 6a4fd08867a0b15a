// Elementwise arithmetic, activations, broadcasting, reductions, and moves of whole blocks.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "framework/tensors/tensor.h"

namespace heddle {

enum class UnaryOp { relu, sigmoid, tanh, gelu, negate, exp, log, sqrt, square };
enum class BinaryOp { add, subtract, multiply, divide };
enum class ReduceOp { sum, mean, max };

class ElementwiseKernels {
 public:
  virtual ~ElementwiseKernels() = default;

  virtual void fill(Tensor& y, double value) const = 0;
  /// Any dtype to any dtype, same number of elements.
  virtual void cast(const Tensor& x, Tensor& y) const = 0;
  /// y = op(x). GELU is the exact one, x * Phi(x).
  virtual void unary(UnaryOp op, const Tensor& x, Tensor& y) const = 0;
  /// dx = dy * op'(x); dx may be dy. `x` is the operation's input, `y` its output; each op reads the one it needs (see
  /// `unary_keeps_input`), the other may be undefined.
  virtual void unary_backward(UnaryOp op, const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) const = 0;
  /// y = a op b, both broadcast to y's shape as NumPy does. y may be an operand of its own shape.
  virtual void binary(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) const = 0;
  /// y = alpha * x + beta * y; beta = 0 does not read y.
  virtual void scale_add(double alpha, const Tensor& x, double beta, Tensor& y) const = 0;
  /// x seen as [outer, reduced, inner] -> y of outer * inner elements. Sums in a fixed order, f32 sums in f32 blocks
  /// that are added in f64.
  virtual void reduce(ReduceOp op, const Tensor& x, std::array<std::int64_t, 3> view, Tensor& y) const = 0;
  /// Every result = parts[0] op parts[1] op .., in this order, rounded to the dtype after each; op is sum or max (a NaN
  /// stays). All of one floating dtype and size, possibly on other ranks' devices; a result may be one of the parts.
  virtual void combine(ReduceOp op, std::span<const Tensor> parts, std::span<Tensor> results) const = 0;
  /// dx[o,r,i] = dy[o,i] where x[o,r,i] == y[o,i] for the first such r, else 0.
  virtual void reduce_max_backward(const Tensor& x, const Tensor& y, std::array<std::int64_t, 3> view, const Tensor& dy,
                                   Tensor& dx) const = 0;
  /// y's dimension i is x's dimension order[i].
  virtual void transpose(const Tensor& x, std::span<const int> order, Tensor& y) const = 0;
  /// Copies a block of rows: y[r, y_begin + j] = x[r, x_begin + j] for r < rows, j < columns, where x is seen as
  /// [rows, x_columns] and y as [rows, y_columns]. Any dtype. Slices and concatenations are made of it.
  virtual void copy_columns(const Tensor& x, std::int64_t x_columns, std::int64_t x_begin, Tensor& y,
                            std::int64_t y_columns, std::int64_t y_begin, std::int64_t rows,
                            std::int64_t columns) const = 0;

  /// x [.., C], slope [C] or [1] of the compute type (f64 for f64, else f32): y = x > 0 ? x : slope * x.
  virtual void prelu(const Tensor& x, const Tensor& slope, Tensor& y) const = 0;
  /// dx and dslope may be undefined when not wanted; dslope is overwritten.
  virtual void prelu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy, Tensor& dx,
                              Tensor& dslope) const = 0;
};

/// True if the derivative of `op` is computed from its input, false if from its output.
constexpr bool unary_keeps_input(UnaryOp op) {
  return op == UnaryOp::gelu || op == UnaryOp::log || op == UnaryOp::square || op == UnaryOp::negate;
}

}  // namespace heddle
