#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/parallel.h"
#include "framework/kernels/elementwise.h"

namespace heddle {

template <>
void ElementwiseKernelsOn<cpu::Context>::cast(const Tensor& x, Tensor& y) const {
  visit_any(x.dtype(), [&]<class From>(From) {
    visit_any(y.dtype(), [&]<class To>(To) {
      const From* const from = x.as<const From>();
      To* const to = y.as<To>();
      cpu::parallel_for(y.numel(), cpu::default_grain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) to[i] = convert_element<To>(from[i]);
      });
    });
  });
}

}  // namespace heddle
