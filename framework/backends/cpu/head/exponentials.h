// The exponentials of a tile's logits in one pass over its products: margin, exponential, sum and scale.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "framework/backends/cpu/head/own_class.h"
#include "framework/backends/cpu/loops/row_math.h"
#include "framework/kernels/head.h"
#include "framework/scalars/scalar.h"

namespace heddle::cpu {

/// If Out is T, products and exponentials may be the same tensor.
template <class T, class Out>
void product_exponentials(const StepMargin& margin, const HeadColumns& columns, const Tensor& reference,
                          const Tensor& products, Tensor& target_logit, Tensor& target_slope, Tensor& exponentials,
                          Tensor& sums) {
  const RowView view(products.shape());
  const auto scale = static_cast<T>(margin.config.scale);
  const T* const factor = optional<T>(columns.scale);
  const T* const bias = optional<T>(columns.bias);
  for_each_row(view, [&](std::int64_t row) {
    const T* const product = products.as<const T>() + row * view.columns;
    Out* const to = exponentials.as<Out>() + row * view.columns;
    const T base = reference.as<const T>()[row];
    const std::int64_t target = columns.labels.as<const std::int64_t>()[row] - columns.begin;
    const bool is_here = target >= 0 && target < view.columns;
    OwnLogit<T> own;
    if (is_here) {
      own = own_logit<T>(margin, columns, row, target, product[target]);
      target_logit.as<T>()[row] = own.logit;
      target_slope.as<T>()[row] = own.slope;
    }
    constexpr std::int64_t length = 256;
    std::array<T, length> terms;
    double sum = 0;
    for (std::int64_t begin = 0; begin < view.columns; begin += length) {
      const std::int64_t end = std::min(begin + length, view.columns);
      const std::int64_t size = end - begin;
      T* const z = terms.data();
      if (factor != nullptr)
        for (std::int64_t i = 0; i < size; ++i) z[i] = product[begin + i] * factor[begin + i] * scale;
      else
        for (std::int64_t i = 0; i < size; ++i) z[i] = product[begin + i] * scale;
      if (bias != nullptr)
        for (std::int64_t i = 0; i < size; ++i) z[i] += bias[begin + i];
      const bool has_target = is_here && target >= begin && target < end;
      if (has_target) z[target - begin] = own.logit;
      for (std::int64_t i = 0; i < size; ++i) z[i] = exponential(z[i] - base);
      sum += lane_sum<double>(0, size, [z](std::int64_t i) { return static_cast<double>(z[i]); });
      if (factor != nullptr)
        for (std::int64_t i = 0; i < size; ++i) to[begin + i] = convert_element<Out>(z[i] * factor[begin + i]);
      else
        for (std::int64_t i = 0; i < size; ++i) to[begin + i] = convert_element<Out>(z[i]);
      if (has_target) to[target] = convert_element<Out>(T(0));
    }
    sums.as<double>()[row] += sum;
  });
}

}  // namespace heddle::cpu
