// The head's gradient with one row per class: margin, exponential and scale in one pass, which is vectorised over
// samples.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "framework/backends/cpu/head/own_class.h"
#include "framework/backends/cpu/loops/row_math.h"
#include "framework/kernels/head.h"
#include "framework/scalars/scalar.h"

namespace heddle::cpu {

/// The factor of each row's gradient: `scale`, the mean's factor and the row's weight.
template <class T>
struct RowFactors {
  T scale;
  const T* weights;

  RowFactors(const LossFactors& factors, double by_logits)
      : scale(static_cast<T>(by_logits * factors.mean_factor)),
        weights(factors.row_weights.defined() ? factors.row_weights.as<const T>() : nullptr) {}
  T at(std::int64_t row) const { return weights != nullptr ? scale * weights[row] : scale; }
};

/// The gradient at a sample's own class, and its place among products [t, B].
template <class T>
struct OwnGradient {
  std::int64_t place = 0;
  T value = T(0);
};

/// None if the class is not one of the columns.
template <class T>
std::optional<OwnGradient<T>> own_gradient(const StepMargin& margin, const HeadColumns& columns, T log_sum, T scale,
                                           std::int64_t sample, const Tensor& products) {
  const std::int64_t target = columns.labels.as<const std::int64_t>()[sample] - columns.begin;
  if (target < 0 || target >= products.shape()[0]) return {};
  const std::int64_t place = target * products.shape()[1] + sample;
  const OwnLogit<T> own = own_logit<T>(margin, columns, sample, target, products.as<const T>()[place]);
  // expm1 keeps the digits of a probability near one.
  return OwnGradient<T>{place, std::expm1(own.logit - log_sum) * scale * own.slope};
}

/// If Out is T, products and gradient are the same tensor.
template <class T, class Out>
void gradient_by_class(const StepMargin& margin, const HeadColumns& columns, const Tensor& log_sums,
                       const LossFactors& factors, Tensor& products, Tensor& gradient) {
  const T* const log_sum = log_sums.as<const T>();
  const RowFactors<T> scales(factors, margin.config.scale);
  const T scale = scales.scale;
  const T* const weights = scales.weights;
  const RowView view(products.shape());
  parallel_for(view.columns, rows_per_thread(view.rows), [&](std::int64_t begin, std::int64_t end) {
    std::vector<OwnGradient<T>> owned;
    for (std::int64_t i = begin; i < end; ++i)
      if (const auto own = own_gradient<T>(margin, columns, log_sum[i], scales.at(i), i, products))
        owned.push_back(*own);
    for (std::int64_t j = 0; j < view.rows; ++j) {
      T* const z = products.as<T>() + j * view.columns;
      const T factor = columns.scale.defined() ? columns.scale.as<const T>()[j] : T(1);
      const T by_product = factor * static_cast<T>(margin.config.scale);
      const T bias = columns.bias.defined() ? columns.bias.as<const T>()[j] : T(0);
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) z[i] = exponential(z[i] * by_product + bias - log_sum[i]) * scale;
      if (weights != nullptr) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) z[i] *= weights[i];
      }
      if constexpr (!std::is_same_v<T, Out>) {
        Out* const to = gradient.as<Out>() + j * view.columns;
        for (std::int64_t i = begin; i < end; ++i) to[i] = convert_element<Out>(z[i]);
      }
    }
    for (const OwnGradient<T>& own : owned) gradient.as<Out>()[own.place] = convert_element<Out>(own.value);
  });
}

}  // namespace heddle::cpu
