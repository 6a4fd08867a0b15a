#include "framework/backends/cuda/cuda_kernels.h"
#include "framework/backends/cuda/device/launch.cuh"
#include "framework/backends/cuda/elementwise/elementwise.h"
#include "framework/scalars/scalar.h"

namespace heddle::cuda {

namespace {

template <class T>
void fill(const Context& context, Tensor& y, T value) {
  T* const to = y.as<T>();
  for_each(context, y.numel(), [=] __device__(std::int64_t i) { to[i] = value; });
}

template <UnaryOp op, class T>
void unary(const Context& context, const Tensor& x, Tensor& y) {
  map(
      context, y.numel(), y.as<T>(), [] __device__(Compute<T> value) { return unary_value<op>(value); },
      x.as<const T>());
}

template <UnaryOp op, class T>
void unary_backward(const Context& context, const Tensor& kept, const Tensor& dy, Tensor& dx) {
  map(
      context, dx.numel(), dx.as<T>(),
      [] __device__(Compute<T> value, Compute<T> gradient) { return gradient * unary_slope<op>(value); },
      kept.as<const T>(), dy.as<const T>());
}

template <class T>
void scale_add(const Context& context, Compute<T> alpha, const Tensor& x, Compute<T> beta, Tensor& y) {
  using C = Compute<T>;
  if (beta == C(0))
    map(
        context, y.numel(), y.as<T>(), [=] __device__(C value) { return alpha * value; }, x.as<const T>());
  else
    map(
        context, y.numel(), y.as<T>(), [=] __device__(C value, C old) { return alpha * value + beta * old; },
        x.as<const T>(), y.as<const T>());
}

class CudaElementwise final : public ElementwiseKernels {
 public:
  explicit CudaElementwise(const Context& context) : context_(context) {}

  void fill(Tensor& y, double value) const override {
    visit_any(y.dtype(), [&]<class T>(T) {
      if constexpr (std::is_integral_v<T>)
        cuda::fill(context_, y, static_cast<T>(value));
      else
        cuda::fill(context_, y, static_cast<T>(static_cast<Compute<T>>(value)));
    });
  }
  void cast(const Tensor& x, Tensor& y) const override { cuda::cast(context_, x, y); }

  void unary(UnaryOp op, const Tensor& x, Tensor& y) const override {
    visit_floating(x.dtype(), "unary", [&]<class T>(T) {
      visit(op, [&](auto which) { cuda::unary<decltype(which)::value, T>(context_, x, y); });
    });
  }
  void unary_backward(UnaryOp op, const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) const override {
    visit_floating(dy.dtype(), "unary", [&]<class T>(T) {
      visit(op, [&](auto which) {
        cuda::unary_backward<decltype(which)::value, T>(context_, unary_keeps_input(op) ? x : y, dy, dx);
      });
    });
  }
  void binary(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) const override {
    cuda::binary(context_, op, a, b, y);
  }
  void scale_add(double alpha, const Tensor& x, double beta, Tensor& y) const override {
    visit_floating(x.dtype(), "scale_add", [&]<class T>(T) {
      cuda::scale_add<T>(context_, static_cast<Compute<T>>(alpha), x, static_cast<Compute<T>>(beta), y);
    });
  }

  void reduce(ReduceOp op, const Tensor& x, std::array<std::int64_t, 3> view, Tensor& y) const override {
    cuda::reduce(context_, op, x, view, y);
  }
  void combine(ReduceOp op, std::span<const Tensor> parts, std::span<Tensor> results) const override {
    cuda::combine(context_, op, parts, results);
  }
  void reduce_max_backward(const Tensor& x, const Tensor& y, std::array<std::int64_t, 3> view, const Tensor& dy,
                           Tensor& dx) const override {
    cuda::reduce_max_backward(context_, x, y, view, dy, dx);
  }
  void transpose(const Tensor& x, std::span<const int> order, Tensor& y) const override {
    cuda::transpose(context_, x, order, y);
  }
  void copy_columns(const Tensor& x, std::int64_t x_columns, std::int64_t x_begin, Tensor& y, std::int64_t y_columns,
                    std::int64_t y_begin, std::int64_t rows, std::int64_t columns) const override {
    cuda::copy_columns(context_, x, x_columns, x_begin, y, y_columns, y_begin, rows, columns);
  }

  void prelu(const Tensor& x, const Tensor& slope, Tensor& y) const override { cuda::prelu(context_, x, slope, y); }
  void prelu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy, Tensor& dx,
                      Tensor& dslope) const override {
    cuda::prelu_backward(context_, x, slope, dy, dx, dslope);
  }

 private:
  const Context& context_;
};

}  // namespace

std::unique_ptr<ElementwiseKernels> make_cuda_elementwise(const Context& context) {
  return std::make_unique<CudaElementwise>(context);
}

}  // namespace heddle::cuda
