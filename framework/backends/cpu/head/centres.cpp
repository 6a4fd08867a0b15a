// Classes with k centres each.
#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/row_math.h"
#include "framework/backends/dispatch.h"
#include "framework/kernels/head.h"

namespace heddle {

template <>
void HeadKernelsOn<cpu::Context>::best_centres(const Tensor& products, const Tensor& scale, Tensor& cosines,
                                               Tensor& best) const {
  visit_head(products.dtype(), "best_centres", [&]<class T>(T) {
    const cpu::RowView view(cosines.shape());
    const T* const factor = scale.defined() ? scale.as<const T>() : nullptr;
    const std::int64_t width = products.shape()[1];
    const std::int64_t centres = view.columns == 0 ? 1 : width / view.columns;
    cpu::for_each_row(view, [&](std::int64_t row) {
      const T* const from = products.as<const T>() + row * width;
      for (std::int64_t column = 0; column < view.columns; ++column) {
        std::int64_t largest = 0;
        T maximum = T(0);
        for (std::int64_t i = 0; i < centres; ++i) {
          const std::int64_t at = column * centres + i;
          const T cosine = factor != nullptr ? from[at] * factor[at] : from[at];
          if (i > 0 && !(cosine > maximum || cosine != cosine)) continue;  // a NaN wins, so that it is seen
          largest = i;
          maximum = cosine;
        }
        cosines.as<T>()[row * view.columns + column] = maximum;
        best.as<std::uint8_t>()[row * view.columns + column] = static_cast<std::uint8_t>(largest);
      }
    });
  });
}

template <>
void HeadKernelsOn<cpu::Context>::spread_centres(const Tensor& by_cosine, const Tensor& best, const Tensor& scale,
                                                 Tensor& gradient) const {
  visit_head(gradient.dtype(), "spread_centres", [&]<class T>(T) {
    const cpu::RowView view(by_cosine.shape());
    const T* const factor = scale.defined() ? scale.as<const T>() : nullptr;
    const std::int64_t width = gradient.shape()[1];
    const std::int64_t centres = view.columns == 0 ? 1 : width / view.columns;
    cpu::for_each_row(view, [&](std::int64_t row) {
      T* const to = gradient.as<T>() + row * width;
      std::fill_n(to, width, T(0));
      for (std::int64_t column = 0; column < view.columns; ++column) {
        const std::int64_t from = row * view.columns + column;
        const std::int64_t at = column * centres + best.as<const std::uint8_t>()[from];
        to[at] = by_cosine.as<const T>()[from] * (factor != nullptr ? factor[at] : T(1));
      }
    });
  });
}

}  // namespace heddle
