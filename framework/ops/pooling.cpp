#include "framework/ops/pooling.h"

#include "framework/error.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

PoolGeometry geometry(const char* name, const Shape& x, const PoolOptions& o) {
  if (x.rank() != 4) fail<InputError>("{}: expected images [N,H,W,C], got {}", name, to_string(x));
  if (o.kernel.height < 1 || o.kernel.width < 1 || o.stride.height < 1 || o.stride.width < 1)
    fail<InputError>("{}: kernel and stride must be at least 1", name);
  // More padding would give windows that see nothing.
  if (o.padding.height < 0 || o.padding.width < 0 || 2 * o.padding.height > o.kernel.height ||
      2 * o.padding.width > o.kernel.width)
    fail<InputError>("{}: padding {}x{} must lie between 0 and half of the kernel {}x{}", name, o.padding.height,
                     o.padding.width, o.kernel.height, o.kernel.width);
  const auto size = [](std::int64_t n, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
    const std::int64_t room = n + 2 * padding - kernel;
    return room < 0 ? 0 : room / stride + 1;
  };
  PoolGeometry g{.batch = x[0],
                 .input = {x[1], x[2]},
                 .output = {},
                 .channels = x[3],
                 .kernel = o.kernel,
                 .stride = o.stride,
                 .padding = o.padding,
                 .count_padding = o.count_padding};
  g.output = {size(g.input.height, o.kernel.height, o.stride.height, o.padding.height),
              size(g.input.width, o.kernel.width, o.stride.width, o.padding.width)};
  if (g.output.height < 1 || g.output.width < 1)
    fail<InputError>("{}: {} is smaller than the kernel {}x{}", name, to_string(x), o.kernel.height, o.kernel.width);
  return g;
}

PoolGeometry check_pool(const char* name, const Tensor& x, const PoolOptions& options) {
  if (!is_floating(x.dtype())) fail<InputError>("{}: expected images [N,H,W,C], got {}", name, to_string(x));
  return geometry(name, x.shape(), options);
}

Shape shape_of(const PoolGeometry& g) {
  return {g.batch, g.output.height, g.output.width, g.channels};
}

Variable pool(PoolOp op, const char* name, const Variable& x, const PoolOptions& options) {
  const PoolGeometry g = check_pool(name, x.value(), options);
  const Shape shape = shape_of(g);
  Tensor y = Tensor::empty(x.device(), shape, x.dtype());
  Tensor choice;
  if (op == PoolOp::max && x.leads().anywhere() && x.device().recorder().records())
    choice = Tensor::empty(x.device(), shape, DType::i32);
  x.device().backend().pooling().pool(op, g, x.value(), y, choice);
  return record(y, {x}, [=, shape = x.shape()](const Tensor& dy, Wanted) {
    Tensor dx = Tensor::empty(dy.device(), shape, dy.dtype());
    dy.device().backend().pooling().pool_backward(op, g, dy, choice, dx);
    return Gradients{dx};
  });
}

}  // namespace

Shape pooled_shape(const Shape& x, const PoolOptions& options) {
  return shape_of(geometry("pool", x, options));
}

Variable max_pool2d(const Variable& x, const PoolOptions& options) {
  return pool(PoolOp::max, "max_pool2d", x, options);
}

Variable average_pool2d(const Variable& x, const PoolOptions& options) {
  return pool(PoolOp::average, "average_pool2d", x, options);
}

Variable global_average_pool(const Variable& x) {
  if (x.shape().rank() != 4)
    fail<InputError>("global_average_pool: expected images [N,H,W,C], got {}", to_string(x.value()));
  const Shape shape = x.shape();
  const Variable pooled = pool(PoolOp::average, "global_average_pool", x,
                               {.kernel = {shape[1], shape[2]}, .stride = {}, .padding = {0, 0}});
  // Records nothing but a view.
  return record(pooled.value().reshape({shape[0], shape[3]}), {pooled}, [shape](const Tensor& dy, Wanted) {
    return Gradients{dy.reshape({shape[0], 1, 1, shape[3]})};
  });
}

}  // namespace heddle
