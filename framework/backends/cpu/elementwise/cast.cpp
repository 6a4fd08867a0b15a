#include "framework/backends/cpu/elementwise/elementwise.h"
#include "framework/backends/cpu/loops/parallel.h"

namespace heddle::cpu {

namespace {

/// 16-bit formats convert by way of f32 only.
template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, BFloat16> || std::is_same_v<To, Float16>)
    return To(static_cast<float>(value));
  else if constexpr (std::is_same_v<From, BFloat16> || std::is_same_v<From, Float16>)
    return static_cast<To>(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

}  // namespace

void CpuElementwise::cast(const Tensor& x, Tensor& y) const {
  visit_any(x.dtype(), [&]<class From>(From) {
    visit_any(y.dtype(), [&]<class To>(To) {
      const From* const from = x.as<const From>();
      To* const to = y.as<To>();
      parallel_for(y.numel(), usual_grain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) to[i] = convert<To>(from[i]);
      });
    });
  });
}

}  // namespace heddle::cpu
