#include "framework/ops/elementwise.h"

#include <algorithm>

#include "framework/ops/checks.h"
#include "framework/tensors/derived.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

const ElementwiseKernels& kernels_of(const Tensor& x) {
  return x.device().backend().elementwise();
}

Shape broadcast_shape(std::string_view what, const Tensor& a, const Tensor& b) {
  check_floating(what, a);
  if (a.dtype() != b.dtype()) fail<InputError>("{}: {} and {} differ in type", what, to_string(a), to_string(b));
  const Shape& longer = a.shape().rank() >= b.shape().rank() ? a.shape() : b.shape();
  const Shape& shorter = &longer == &a.shape() ? b.shape() : a.shape();
  Shape result = longer;
  for (int i = 0; i < shorter.rank(); ++i) {
    const int place = longer.rank() - shorter.rank() + i;
    if (shorter[i] == 1 || shorter[i] == longer[place]) continue;
    if (longer[place] != 1) fail<InputError>("{}: {} and {} do not broadcast", what, to_string(a), to_string(b));
    result = result.with(place, shorter[i]);
  }
  return result;
}

Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b, const Shape& shape) {
  Tensor y = Tensor::empty(a.device(), shape, a.dtype());
  kernels_of(a).binary(op, a, b, y);
  return y;
}

/// Adds up what broadcasting repeated: `x` reduced to `shape`. Neighbouring dimensions are reduced together.
Tensor sum_to(Tensor x, const Shape& shape) {
  const int extra = x.shape().rank() - shape.rank();
  const auto is_reduced = [&](int i) { return x.shape()[i] != 1 && (i < extra || shape[i - extra] == 1); };
  for (int end = x.shape().rank(); end > 0;) {
    if (!is_reduced(end - 1)) {
      --end;
      continue;
    }
    int begin = end - 1;
    while (begin > 0 && is_reduced(begin - 1)) --begin;
    Shape reduced = x.shape();
    for (int i = begin; i < end; ++i) reduced = reduced.with(i, 1);
    Tensor sum = Tensor::empty(x.device(), reduced, x.dtype());
    const Shape& from = x.shape();
    x.device().backend().reduction().reduce(
        ReduceOp::sum, x, {from.product(0, begin), from.product(begin, end), from.product(end, from.rank())}, sum);
    x = std::move(sum);
    end = begin;
  }
  return x.reshape(shape);
}

Tensor scaled(const Tensor& x, double factor) {
  Tensor y = Tensor::empty_like(x);
  kernels_of(x).scale_add(factor, x, 0, y);
  return y;
}

/// Kept for the backward pass only if it will be read there.
Tensor kept_if(bool is_needed, const Variable& x) {
  return is_needed ? x.value() : Tensor();
}

Variable unary(std::string_view what, UnaryOp op, const Variable& x) {
  check_floating(what, x.value());
  Tensor y = Tensor::empty_like(x.value());
  kernels_of(y).unary(op, x.value(), y);
  const Tensor kept = unary_keeps_input(op) ? x.value() : y;
  return record(y, {x}, [op, kept](const Tensor& dy, Wanted) {
    Tensor dx = Tensor::empty_like(dy);
    kernels_of(dy).unary_backward(op, kept, kept, dy, dx);
    return Gradients{dx};
  });
}

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  const Shape shape = broadcast_shape("add", a.value(), b.value());
  return record(
      binary(BinaryOp::add, a.value(), b.value(), shape), {a, b},
      [a_shape = a.shape(), b_shape = b.shape()](const Tensor& dy, Wanted wanted) {
        return Gradients{wanted[0] ? sum_to(dy, a_shape) : Tensor(), wanted[1] ? sum_to(dy, b_shape) : Tensor()};
      });
}

Variable subtract(const Variable& a, const Variable& b) {
  const Shape shape = broadcast_shape("subtract", a.value(), b.value());
  return record(binary(BinaryOp::subtract, a.value(), b.value(), shape), {a, b},
                [a_shape = a.shape(), b_shape = b.shape()](const Tensor& dy, Wanted wanted) {
                  return Gradients{wanted[0] ? sum_to(dy, a_shape) : Tensor(),
                                   wanted[1] ? scaled(sum_to(dy, b_shape), -1) : Tensor()};
                });
}

Variable multiply(const Variable& a, const Variable& b) {
  const Shape shape = broadcast_shape("multiply", a.value(), b.value());
  return record(
      binary(BinaryOp::multiply, a.value(), b.value(), shape), {a, b},
      [left = kept_if(b.leads().anywhere(), a), right = kept_if(a.leads().anywhere(), b), a_shape = a.shape(),
       b_shape = b.shape()](const Tensor& dy, Wanted wanted) {
        const auto share = [&dy](const Tensor& other, const Shape& to) {
          return sum_to(binary(BinaryOp::multiply, dy, other, dy.shape()), to);
        };
        return Gradients{wanted[0] ? share(right, a_shape) : Tensor(), wanted[1] ? share(left, b_shape) : Tensor()};
      });
}

Variable divide(const Variable& a, const Variable& b) {
  const Shape shape = broadcast_shape("divide", a.value(), b.value());
  const Tensor y = binary(BinaryOp::divide, a.value(), b.value(), shape);
  return record(y, {a, b},
                [divisor = b.value(), quotient = b.leads().anywhere() ? y : Tensor(), a_shape = a.shape()](
                    const Tensor& dy, Wanted wanted) {
                  Tensor share = binary(BinaryOp::divide, dy, divisor, dy.shape());
                  Gradients gradients(2);
                  if (wanted[0]) gradients[0] = sum_to(share, a_shape);
                  if (wanted[1]) {
                    const Tensor product = binary(BinaryOp::multiply, share, quotient, dy.shape());
                    gradients[1] = scaled(sum_to(product, divisor.shape()), -1);
                  }
                  return gradients;
                });
}

Variable scale(const Variable& x, double factor) {
  check_floating("scale", x.value());
  return record(scaled(x.value(), factor), {x},
                [factor](const Tensor& dy, Wanted) { return Gradients{scaled(dy, factor)}; });
}

Variable relu(const Variable& x) {
  return unary("relu", UnaryOp::relu, x);
}
Variable relu6(const Variable& x) {
  return unary("relu6", UnaryOp::relu6, x);
}
Variable sigmoid(const Variable& x) {
  return unary("sigmoid", UnaryOp::sigmoid, x);
}
Variable tanh(const Variable& x) {
  return unary("tanh", UnaryOp::tanh, x);
}
Variable gelu(const Variable& x) {
  return unary("gelu", UnaryOp::gelu, x);
}
Variable negate(const Variable& x) {
  return scale(x, -1);
}
Variable exp(const Variable& x) {
  return unary("exp", UnaryOp::exp, x);
}
Variable log(const Variable& x) {
  return unary("log", UnaryOp::log, x);
}
Variable sqrt(const Variable& x) {
  return unary("sqrt", UnaryOp::sqrt, x);
}
Variable square(const Variable& x) {
  return unary("square", UnaryOp::square, x);
}

Variable prelu(const Variable& x, const Variable& slope) {
  check_floating("prelu", x.value());
  const bool is_shared = slope.shape() == Shape{1};
  if (!is_shared && x.shape().rank() == 0)
    fail<InputError>("prelu: {} has no channels for a slope {}", to_string(x.value()), to_string(slope.value()));
  check_tensor("prelu", "a slope", slope.value(), compute_dtype(x.dtype()),
               is_shared ? Shape{1} : Shape{x.shape().back()});
  Tensor y = Tensor::empty_like(x.value());
  kernels_of(y).prelu(x.value(), slope.value(), y);
  return record(y, {x, slope}, [x = x.value(), slope = slope.value()](const Tensor& dy, Wanted asked) {
    const Wanted wanted = asked.ever();  // all gradients in one pass; then neither x nor dy is kept
    Tensor dx = wanted[0] ? Tensor::empty_like(x) : Tensor();
    Tensor dslope = wanted[1] ? Tensor::empty_like(slope) : Tensor();
    kernels_of(dy).prelu_backward(x, slope, dy, dx, dslope);
    return Gradients{dx, dslope};
  });
}

Tensor in_type(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor result = Tensor::empty(x.device(), x.shape(), dtype);
  kernels_of(x).cast(x, result);
  return result;
}

static Variable record_cast(const Tensor& y, const Variable& x) {
  return record(y, {x}, [before = x.dtype()](const Tensor& dy, Wanted) { return Gradients{in_type(dy, before)}; });
}

Variable cast(const Variable& x, DType dtype) {
  return x.dtype() == dtype ? x : record_cast(in_type(x.value(), dtype), x);
}

Tensor weight_in_type(const Tensor& weight, DType dtype) {
  if (weight.dtype() == dtype) return weight;
  const auto seen_as = [&](const Tensor& bytes) { return Tensor::view(bytes.storage(), 0, weight.shape(), dtype); };
  const std::int64_t bytes = weight.numel() * static_cast<std::int64_t>(size_of(dtype));
  return seen_as(derived_from(weight, {-1, static_cast<std::int64_t>(dtype)}, bytes, [&](Tensor& memory) {
    Tensor copy = seen_as(memory);
    kernels_of(weight).cast(weight, copy);
  }));
}

Variable cast_weight(const Variable& weight, DType dtype) {
  return weight.dtype() == dtype ? weight : record_cast(weight_in_type(weight.value(), dtype), weight);
}

}  // namespace heddle
