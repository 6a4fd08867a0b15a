#include "framework/ops/linear_algebra.h"

#include <utility>

#include "framework/ops/checks.h"
#include "framework/ops/workspace.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

void check_product(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b) {
  const auto mark = [](bool transposed) { return transposed ? " transposed" : ""; };
  if (a.shape().rank() == 2 && b.shape().rank() == 2 && a.dtype() == b.dtype() && is_floating(a.dtype()) &&
      a.shape()[transpose_a ? 0 : 1] == b.shape()[transpose_b ? 1 : 0])
    return;
  fail<InputError>("matmul: {}{} and {}{} do not fit", to_string(a), mark(transpose_a), to_string(b),
                   mark(transpose_b));
}

void check_result(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, const Tensor& c) {
  const Shape expected{a.shape()[transpose_a ? 1 : 0], b.shape()[transpose_b ? 0 : 1]};
  if (c.shape() != expected || (c.dtype() != a.dtype() && c.dtype() != compute_dtype(a.dtype())))
    fail<InputError>("matmul: {} and {} give {}, not {}", to_string(a), to_string(b), to_string(a.dtype(), expected),
                     to_string(c));
}

/// op(a) * op(b) + bias as a new tensor.
Tensor product(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, const Tensor& bias = {}) {
  Tensor c = Tensor::empty(a.device(), {a.shape()[transpose_a ? 1 : 0], b.shape()[transpose_b ? 0 : 1]}, a.dtype());
  gemm(a, transpose_a, b, transpose_b, 1, 0, c, bias);
  return c;
}

Tensor column_sums(const Tensor& x) {
  Tensor sums = Tensor::empty(x.device(), {x.shape()[1]}, x.dtype());
  x.device().backend().reduction().reduce(ReduceOp::sum, x, {1, x.shape()[0], x.shape()[1]}, sums);
  return sums;
}

}  // namespace

void gemm(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, double alpha, double beta, Tensor& c,
          const Tensor& bias) {
  check_product(a, transpose_a, b, transpose_b);
  check_result(a, transpose_a, b, transpose_b, c);
  if (bias.defined()) check_tensor("matmul", "a bias", bias, c.dtype(), {c.shape()[1]});
  const LinearAlgebraKernels& kernels = c.device().backend().linear_algebra();
  const MatrixProduct product{.a = a,
                              .transpose_a = transpose_a,
                              .b = b,
                              .transpose_b = transpose_b,
                              .alpha = alpha,
                              .beta = beta,
                              .bias = bias};
  Tensor workspace = workspace_of(c.device(), kernels.gemm_workspace(product, c));
  c.storage()->changed();
  kernels.gemm(product, c, workspace);
}

PackedOperand::PackedOperand(const Tensor& b, bool transpose, std::int64_t rows, std::int64_t products)
    : b_(b), transpose_(transpose), rows_(rows) {
  if (products < 2) return;
  const LinearAlgebraKernels& kernels = b.device().backend().linear_algebra();
  packed_ = workspace_of(b.device(), kernels.packed_bytes(rows, b, transpose));
  if (packed_.defined()) kernels.pack(rows, b, transpose, packed_);
}

void PackedOperand::multiply(const Tensor& a, double beta, Tensor& c) const {
  if (!packed_.defined() || a.shape()[0] != rows_) return gemm(a, false, b_, transpose_, 1, beta, c);
  check_product(a, false, b_, transpose_);
  check_result(a, false, b_, transpose_, c);
  const LinearAlgebraKernels& kernels = c.device().backend().linear_algebra();
  Tensor workspace = workspace_of(c.device(), kernels.packed_gemm_workspace(a, beta, c));
  c.storage()->changed();
  kernels.packed_gemm(a, packed_, beta, c, workspace);
}

Variable matmul(const Variable& a_in, const Variable& b_in, bool transpose_a, bool transpose_b) {
  check_product(a_in.value(), transpose_a, b_in.value(), transpose_b);
  const Tensor y = product(a_in.value(), transpose_a, b_in.value(), transpose_b);
  // Each is kept for the other's gradient.
  Tensor a = b_in.leads().anywhere() ? a_in.value() : Tensor();
  Tensor b = a_in.leads().anywhere() ? b_in.value() : Tensor();
  return record(y, {a_in, b_in}, [=](const Tensor& dy, Wanted wanted) mutable {
    Gradients gradients(2);
    if (wanted[0]) {
      gradients[0] = transpose_a ? product(b, transpose_b, dy, true) : product(dy, false, b, !transpose_b);
      b = Tensor();
    }
    if (wanted[1]) {
      gradients[1] = transpose_b ? product(dy, true, a, transpose_a) : product(a, !transpose_a, dy, false);
      a = Tensor();
    }
    return gradients;
  });
}

Variable linear(const Variable& x_in, const Variable& weight_in, const Variable& bias) {
  const Tensor& x = x_in.value();
  Tensor weight = weight_in.value();
  if (weight.shape().rank() != 2 || x.shape().rank() < 1 || x.shape().back() != weight.shape()[1] ||
      x.dtype() != weight.dtype())
    fail<InputError>("linear: {} does not fit a weight {} of [out, in]", to_string(x), to_string(weight));
  const std::int64_t out = weight.shape()[0];
  if (bias.defined() && (bias.shape() != Shape{out} || bias.dtype() != x.dtype()))
    fail<InputError>("linear: expected a bias {}, got {}", to_string(x.dtype(), Shape{out}), to_string(bias.value()));
  const Shape in_shape = x.shape();
  const std::int64_t rows = in_shape.product(0, in_shape.rank() - 1);
  const Tensor flat_x = x.reshape({rows, weight.shape()[1]});
  Tensor flat = weight_in.leads().anywhere() ? flat_x : Tensor();
  const Tensor y = product(flat_x, false, weight, true, bias.value());
  return record(y.reshape(in_shape.with(in_shape.rank() - 1, out).dimensions()), {x_in, weight_in, bias},
                [=](const Tensor& dy_in, Wanted wanted) mutable {
                  const Tensor dy = dy_in.reshape({rows, out});
                  Gradients gradients(3);
                  if (wanted[0])
                    gradients[0] = product(dy, false, std::exchange(weight, {}), false).reshape(in_shape.dimensions());
                  if (wanted[1]) gradients[1] = product(dy, true, std::exchange(flat, {}), false);
                  if (wanted[2]) gradients[2] = column_sums(dy);
                  return gradients;
                });
}

Variable add_bias(const Variable& x, const Variable& bias, bool adds) {
  check_floating("add_bias", x.value());
  if (x.shape().rank() == 0) fail<InputError>("add_bias: {} has no channels", to_string(x.value()));
  const std::int64_t channels = x.shape().back();
  check_tensor("add_bias", "a bias", bias.value(), x.dtype(), {channels});
  Tensor y = x.value();
  if (adds) {
    y = Tensor::empty_like(x.value());
    x.device().backend().elementwise().binary(BinaryOp::add, x.value(), bias.value(), y);
  }
  const std::int64_t rows = x.shape().product(0, x.shape().rank() - 1);
  return record(y, {x, bias}, [rows, channels](const Tensor& dy, Wanted wanted) {
    return Gradients{dy, wanted[1] ? column_sums(dy.reshape({rows, channels})) : Tensor()};
  });
}

}  // namespace heddle
