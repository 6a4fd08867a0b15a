#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/launch.cuh"
#include "framework/kernels/elementwise.h"

namespace heddle::cuda {

namespace {

template <class T>
constexpr bool is_real = std::is_floating_point_v<T> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

template <class To, class From>
void cast_as(const Context& context, const Tensor& x, Tensor& y) {
  const From* const from = x.as<const From>();
  To* const to = y.as<To>();
  if constexpr (is_real<To> && is_real<From>)
    map(
        context, y.numel(), to, [] __device__(Compute<From> value) { return convert_element<To>(value); }, from);
  else
    for_each(context, y.numel(), [=] __device__(std::int64_t i) { to[i] = convert_element<To>(from[i]); });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void ElementwiseKernelsOn<cuda::Context>::cast(const Tensor& x, Tensor& y) const {
  visit_any(x.dtype(), [&]<class From>(From) {
    visit_any(y.dtype(), [&]<class To>(To) { cuda::cast_as<To, From>(context_, x, y); });
  });
}

}  // namespace heddle
