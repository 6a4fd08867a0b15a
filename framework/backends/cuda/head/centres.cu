// Classes with k centres each.
#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/head/rows.cuh"
#include "framework/kernels/head.h"

namespace heddle::cuda {

namespace {

template <class T>
void best_centres_as(const Context& context, const Tensor& products, const Tensor& scale, Tensor& cosines,
                     Tensor& best) {
  const RowParts classes(cosines);
  const std::int64_t columns = classes.columns;
  const std::int64_t centres = columns == 0 ? 1 : products.shape()[1] / columns;
  const T* const product = products.as<const T>();
  const T* const factor = data_or_null<const T>(scale);
  T* const cosine = cosines.as<T>();
  auto* const which = best.as<std::uint8_t>();
  for_each_part(context, classes, [=] __device__(std::int64_t, std::int64_t row, std::int64_t begin, std::int64_t end) {
    for_row(begin, end, [&](std::int64_t column) {
      const std::int64_t first = column * centres;
      const T* const from = product + row * columns * centres;
      std::int64_t largest = 0;
      T maximum = T(0);
      for (std::int64_t i = 0; i < centres; ++i) {
        const T value = factor != nullptr ? from[first + i] * factor[first + i] : from[first + i];
        if (i > 0 && !(value > maximum || value != value)) continue;  // a NaN wins, so that it is seen
        largest = i;
        maximum = value;
      }
      cosine[row * columns + column] = maximum;
      which[row * columns + column] = static_cast<std::uint8_t>(largest);
    });
  });
}

template <class T>
void spread_centres_as(const Context& context, const Tensor& by_cosine, const Tensor& best, const Tensor& scale,
                       Tensor& gradient) {
  const RowParts classes(by_cosine);
  const std::int64_t columns = classes.columns;
  const std::int64_t centres = columns == 0 ? 1 : gradient.shape()[1] / columns;
  const T* const from = by_cosine.as<const T>();
  const auto* const which = best.as<const std::uint8_t>();
  const T* const factor = data_or_null<const T>(scale);
  T* const to = gradient.as<T>();
  for_each_part(context, classes, [=] __device__(std::int64_t, std::int64_t row, std::int64_t begin, std::int64_t end) {
    for_row(begin, end, [&](std::int64_t column) {
      const std::int64_t at = row * columns + column;
      for (std::int64_t i = 0; i < centres; ++i) {
        const T times = factor != nullptr ? factor[column * centres + i] : T(1);
        to[at * centres + i] = i == which[at] ? from[at] * times : T(0);
      }
    });
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void HeadKernelsOn<cuda::Context>::best_centres(const Tensor& products, const Tensor& scale, Tensor& cosines,
                                                Tensor& best) const {
  visit_head(products.dtype(), "best_centres",
             [&]<class T>(T) { cuda::best_centres_as<T>(context_, products, scale, cosines, best); });
}

template <>
void HeadKernelsOn<cuda::Context>::spread_centres(const Tensor& by_cosine, const Tensor& best, const Tensor& scale,
                                                  Tensor& gradient) const {
  visit_head(gradient.dtype(), "spread_centres",
             [&]<class T>(T) { cuda::spread_centres_as<T>(context_, by_cosine, best, scale, gradient); });
}

}  // namespace heddle
