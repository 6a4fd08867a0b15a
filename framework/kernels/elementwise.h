// Elementwise arithmetic with broadcasting, activations, and conversions between types.
#pragma once

#include "framework/scalars/operators.h"
#include "framework/tensors/tensor.h"

namespace heddle {

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

  /// x [.., C], slope [C] or [1] of the compute type (f64 for f64, else f32): y = x > 0 ? x : slope * x.
  virtual void prelu(const Tensor& x, const Tensor& slope, Tensor& y) const = 0;
  /// dx and dslope may be undefined when not wanted; dslope is overwritten.
  virtual void prelu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy, Tensor& dx,
                              Tensor& dslope) const = 0;
};

/// The kernels of one backend, which defines each of them for its own Context (framework/backends/kernels_on.h).
template <class Context>
class ElementwiseKernelsOn final : public ElementwiseKernels {
 public:
  explicit ElementwiseKernelsOn(Context& context) : context_(context) {}

  void fill(Tensor& y, double value) const override;
  void cast(const Tensor& x, Tensor& y) const override;
  void unary(UnaryOp op, const Tensor& x, Tensor& y) const override;
  void unary_backward(UnaryOp op, const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) const override;
  void binary(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) const override;
  void scale_add(double alpha, const Tensor& x, double beta, Tensor& y) const override;
  void prelu(const Tensor& x, const Tensor& slope, Tensor& y) const override;
  void prelu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy, Tensor& dx,
                      Tensor& dslope) const override;

 private:
  Context& context_;
};

}  // namespace heddle
