#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/launch.cuh"
#include "framework/kernels/elementwise.h"

namespace heddle::cuda {

namespace {

template <class To, class From>
void cast_as(const Context& context, const Tensor& x, Tensor& y) {
  const From* const from = x.as<const From>();
  To* const to = y.as<To>();
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
