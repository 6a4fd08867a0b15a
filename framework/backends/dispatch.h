// From choices at run time to template arguments, for the kernels of the backends that compute.
#pragma once

#include <string_view>
#include <type_traits>

#include "framework/kernels/normalization.h"
#include "framework/tensors/dtype.h"

namespace heddle {

/// f(constant) with the activation as a type.
template <class F>
void visit_activation(NormActivation activation, F&& f) {
  switch (activation) {
    case NormActivation::none:
      return f(std::integral_constant<NormActivation, NormActivation::none>());
    case NormActivation::relu:
      return f(std::integral_constant<NormActivation, NormActivation::relu>());
    case NormActivation::prelu:
      return f(std::integral_constant<NormActivation, NormActivation::prelu>());
  }
}

/// f(T{}) for f32 and f64 only, which the head computes in: 16-bit logits of millions of classes are too coarse for a
/// loss.
template <class F>
void visit_head(DType dtype, std::string_view what, F&& f) {
  if (dtype == DType::f64)
    f(double{});
  else if (dtype == DType::f32)
    f(float{});
  else
    fail<InputError>("{}: expected f32 or f64 logits, got {}", what, name_of(dtype));
}

/// f(T{}, Out{}) for head results of the logits' type or, of f32, bf16.
template <class F>
void visit_head_result(DType logits, DType result, std::string_view what, F&& f) {
  visit_head(logits, what, [&]<class T>(T) {
    if (result == logits) return f(T{}, T{});
    if constexpr (std::is_same_v<T, float>)
      if (result == DType::bf16) return f(T{}, BFloat16{});
    fail("{}: expected a result of {} or bf16, got {}", what, name_of(logits), name_of(result));
  });
}

}  // namespace heddle
