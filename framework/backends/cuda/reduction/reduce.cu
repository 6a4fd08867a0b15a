#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/sums.cuh"
#include "framework/kernels/reduction.h"

namespace heddle::cuda {

namespace {

template <class T>
void sums(const Context& context, const Tensor& x, std::array<std::int64_t, 3> view, double factor, Tensor& y) {
  using C = Compute<T>;
  const auto [outer, reduced, inner] = view;
  const T* const from = x.as<const T>();
  T* const to = y.as<T>();
  const auto write = [=] __device__(std::int64_t i, double sum) {
    to[i] = static_cast<T>(static_cast<C>(sum * factor));
  };
  const std::int64_t columns = inner == 1 ? reduced : inner;
  const auto value = [=] __device__(std::int64_t row, std::int64_t column) {
    return static_cast<C>(from[row * columns + column]);
  };
  if (inner == 1)
    sum_rows(context, outer, reduced, value, write);
  else
    sum_columns(context, outer, reduced, inner, value, write);
}

template <class T>
void maxima(const Context& context, const Tensor& x, std::array<std::int64_t, 3> view, Tensor& y) {
  using C = Compute<T>;
  const std::int64_t outer = view[0];
  const std::int64_t reduced = view[1];
  const std::int64_t inner = view[2];
  const T* const from = x.as<const T>();
  T* const to = y.as<T>();
  if (inner == 1) {
    for_each_row(context, outer, [=] __device__(std::int64_t row) {
      const C maximum =
          row_max<C>(row * reduced, (row + 1) * reduced, [&](std::int64_t i) { return static_cast<C>(from[i]); });
      if (threadIdx.x == 0) to[row] = static_cast<T>(maximum);
    });
    return;
  }
  for_each(context, outer * inner, [=] __device__(std::int64_t at) {
    const T* const first = from + at / inner * reduced * inner + at % inner;
    C maximum = -std::numeric_limits<C>::infinity();
    for (std::int64_t r = 0; r < reduced; ++r) maximum = larger(maximum, static_cast<C>(first[r * inner]));
    to[at] = static_cast<T>(maximum);
  });
}

template <class T>
void max_backward(const Context& context, const Tensor& x, const Tensor& y, std::array<std::int64_t, 3> view,
                  const Tensor& dy, Tensor& dx) {
  using C = Compute<T>;
  const std::int64_t outer = view[0];
  const std::int64_t reduced = view[1];
  const std::int64_t inner = view[2];
  const T* const from = x.as<const T>();
  const T* const maximum = y.as<const T>();
  const T* const gradient = dy.as<const T>();
  T* const to = dx.as<T>();
  for_each(context, outer * inner, [=] __device__(std::int64_t at) {
    const std::int64_t first = at / inner * reduced * inner + at % inner;
    const C wanted = static_cast<C>(maximum[at]);
    bool is_found = false;
    for (std::int64_t r = 0; r < reduced; ++r) {
      const C value = static_cast<C>(from[first + r * inner]);
      const bool is_it = !is_found && (value == wanted || value != value);
      to[first + r * inner] = is_it ? gradient[at] : T{};
      is_found = is_found || is_it;
    }
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void ReductionKernelsOn<cuda::Context>::reduce(ReduceOp op, const Tensor& x, std::array<std::int64_t, 3> view,
                                               Tensor& y) const {
  visit_floating(x.dtype(), "reduce", [&]<class T>(T) {
    if (op == ReduceOp::max)
      cuda::maxima<T>(context_, x, view, y);
    else
      cuda::sums<T>(context_, x, view, op == ReduceOp::mean ? 1 / static_cast<double>(view[1]) : 1.0, y);
  });
}

template <>
void ReductionKernelsOn<cuda::Context>::reduce_max_backward(const Tensor& x, const Tensor& y,
                                                            std::array<std::int64_t, 3> view, const Tensor& dy,
                                                            Tensor& dx) const {
  visit_floating(x.dtype(), "reduce", [&]<class T>(T) { cuda::max_backward<T>(context_, x, y, view, dy, dx); });
}

}  // namespace heddle
