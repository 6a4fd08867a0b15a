#include "framework/backends/cuda/device/launch.cuh"
#include "framework/backends/cuda/elementwise/elementwise.h"

namespace heddle::cuda {

namespace {

/// 16-bit formats convert by way of f32 only.
template <class To, class From>
__device__ To convert(From value) {
  if constexpr (std::is_same_v<To, BFloat16> || std::is_same_v<To, Float16>)
    return To(static_cast<float>(value));
  else if constexpr (std::is_same_v<From, BFloat16> || std::is_same_v<From, Float16>)
    return static_cast<To>(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

template <class To, class From>
void cast_as(const Context& context, const Tensor& x, Tensor& y) {
  const From* const from = x.as<const From>();
  To* const to = y.as<To>();
  for_each(context, y.numel(), [=] __device__(std::int64_t i) { to[i] = convert<To>(from[i]); });
}

}  // namespace

void CudaElementwise::cast(const Tensor& x, Tensor& y) const {
  visit_any(x.dtype(),
            [&]<class From>(From) { visit_any(y.dtype(), [&]<class To>(To) { cast_as<To, From>(context_, x, y); }); });
}

}  // namespace heddle::cuda
