#include "framework/ops/reduction.h"

#include <array>

#include "framework/ops/checks.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

using View = std::array<std::int64_t, 3>;

/// How a reduction sees its input, and the shape of what comes out.
struct Geometry {
  View view;
  Shape result;
};

Geometry over_everything(const Tensor& x) {
  return {{1, x.numel(), 1}, Shape()};
}

Geometry over_dimension(std::string_view what, const Tensor& x, int dimension) {
  const int reduced = checked_dimension(what, x, dimension);
  const Shape& shape = x.shape();
  std::array<std::int64_t, Shape::max_rank> left{};
  std::size_t rank = 0;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != reduced) left[rank++] = shape[i];
  return {{shape.product(0, reduced), shape[reduced], shape.product(reduced + 1, shape.rank())},
          Shape(std::span<const std::int64_t>(left.data(), rank))};
}

Tensor reduced(ReduceOp op, const Tensor& x, const Geometry& geometry) {
  Tensor y = Tensor::empty(x.device(), geometry.result, x.dtype());
  x.device().backend().reduction().reduce(op, x, geometry.view, y);
  return y;
}

Variable added(std::string_view what, ReduceOp op, const Variable& x, const Geometry& geometry) {
  check_floating(what, x.value());
  const double factor = op == ReduceOp::mean ? 1 / static_cast<double>(geometry.view[1]) : 1;
  return record(
      reduced(op, x.value(), geometry), {x},
      [shape = x.shape(), view = geometry.view, factor](const Tensor& dy, Wanted) {
        const Tensor share = Tensor::full(dy.device(), {1}, dy.dtype(), factor);
        Tensor dx = Tensor::empty(dy.device(), {view[0], view[1], view[2]}, dy.dtype());
        dy.device().backend().elementwise().binary(BinaryOp::multiply, dy.reshape({view[0], 1, view[2]}), share, dx);
        return Gradients{dx.reshape(shape)};
      });
}

}  // namespace

Variable sum(const Variable& x) {
  return added("sum", ReduceOp::sum, x, over_everything(x.value()));
}
Variable mean(const Variable& x) {
  return added("mean", ReduceOp::mean, x, over_everything(x.value()));
}
Variable sum(const Variable& x, int dimension) {
  return added("sum", ReduceOp::sum, x, over_dimension("sum", x.value(), dimension));
}
Variable mean(const Variable& x, int dimension) {
  return added("mean", ReduceOp::mean, x, over_dimension("mean", x.value(), dimension));
}

Variable max(const Variable& x, int dimension) {
  check_floating("max", x.value());
  const Geometry geometry = over_dimension("max", x.value(), dimension);
  if (geometry.view[1] == 0) fail<InputError>("max: dimension {} of {} is empty", dimension, to_string(x.value()));
  const Tensor y = reduced(ReduceOp::max, x.value(), geometry);
  return record(y, {x}, [x = x.value(), y, view = geometry.view](const Tensor& dy, Wanted) {
    Tensor dx = Tensor::empty_like(x);
    dy.device().backend().reduction().reduce_max_backward(x, y, view, dy, dx);
    return Gradients{dx};
  });
}

}  // namespace heddle
