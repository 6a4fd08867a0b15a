// The logit of a row's own class, as all kernels of the head compute it.
#pragma once

#include <cstdint>

#include "framework/kernels/head.h"
#include "framework/scalars/margin.h"

namespace heddle::cpu {

/// The elements of a tensor that may be undefined: then null.
template <class T>
const T* optional(const Tensor& x) {
  return x.defined() ? x.as<const T>() : nullptr;
}

template <class T>
struct OwnLogit {
  T logit = T(0);
  T slope = T(0);  // dphi/dcos
};

/// From the product of a row and its own class, which is this column.
template <class T>
OwnLogit<T> own_logit(const StepMargin& margin, const HeadColumns& columns, std::int64_t row, std::int64_t column,
                      T product) {
  const T* const factor = optional<T>(columns.scale);
  const T* const bias = optional<T>(columns.bias);
  const T* const parameter = optional<T>(margin.parameter);
  const TargetValue<T> value = margin_target(margin.config, factor != nullptr ? product * factor[column] : product,
                                             parameter != nullptr ? parameter[row] : T(0));
  const T logit = static_cast<T>(margin.config.scale) * value.phi + (bias != nullptr ? bias[column] : T(0));
  return {logit, value.slope};
}

}  // namespace heddle::cpu
