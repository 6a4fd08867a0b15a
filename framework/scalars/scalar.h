// Scalar functions that the kernels of every backend with data share, so that the cpu tests cover all of them:
// activations and their derivatives, random draws, optimizer updates. T is f32 or f64.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/host_device.h"
#include "framework/scalars/bits.h"
#include "framework/scalars/draw.h"
#include "framework/scalars/operators.h"
#include "framework/scalars/optimizer_step.h"
#include "framework/scalars/random.h"

namespace heddle {

HEDDLE_HOST_DEVICE inline double exponential(double x) {
  return std::exp(x);
}

/// e^x within 1.1 ulp; where the result would be subnormal (x < -87.3), it is 0. A GPU has an instruction for most of
/// it, and keeps subnormal results. Elsewhere it is computed without branches or calls: loops over it vectorise, as
/// long as it is inlined, which large callers would otherwise refuse.
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline float exponential(float x) {
#ifdef __CUDA_ARCH__
  return expf(x);
#else
  // Adding 1.5 * 2^23 rounds x / ln 2 to an integer n, which is then in the low bits of the sum.
  const float shifted = x * 1.44269504F + 12582912.0F;
  const float n = shifted - 12582912.0F;
  // ln 2 in two parts, of which the first times n is exact: x = n ln 2 + r, |r| <= ln(2) / 2.
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  // (e^r - 1 - r) / r^2 interpolated at Chebyshev's nodes: relative error of e^r below 2^-26.
  float p = 0.00139261835877F;
  p = p * r + 0.00836317905272F;
  p = p * r + 0.0416665546172F;
  p = p * r + 0.166665769897F;
  p = p * r + 0.5F;
  p = p * (r * r) + r + 1.0F;
  // Times 2^n: n is added to the exponent.
  const float product = float_of(bits_of(p) + (bits_of(shifted) << 23));
  constexpr float min_x = -87.3365402F;  // e^x is at least 2^-126 from here
  constexpr float max_x = 88.7228317F;   // and less than 2^128 up to here
  const float in_range = x < min_x ? 0.0F : product;
  return x <= max_x ? in_range : x + std::numeric_limits<float>::infinity();  // NaN remains NaN
#endif
}

template <class T>
HEDDLE_HOST_DEVICE T standard_normal_cdf(T x) {
  return T(0.5) * std::erfc(x * T(-0.70710678118654752440));
}

template <class T>
HEDDLE_HOST_DEVICE T standard_normal_density(T x) {
  return T(0.39894228040143267794) * exponential(T(-0.5) * x * x);
}

template <UnaryOp op, class T>
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline T unary_value(T x) {
  if constexpr (op == UnaryOp::relu) return x < T(0) ? T(0) : x;  // a NaN stays one
  if constexpr (op == UnaryOp::relu6) return x < T(0) ? T(0) : (x > T(6) ? T(6) : x);
  if constexpr (op == UnaryOp::sigmoid) return T(1) / (T(1) + exponential(-x));
  if constexpr (op == UnaryOp::tanh) return std::tanh(x);
  if constexpr (op == UnaryOp::gelu) return x * standard_normal_cdf(x);
  if constexpr (op == UnaryOp::negate) return -x;
  if constexpr (op == UnaryOp::exp) return exponential(x);
  if constexpr (op == UnaryOp::log) return std::log(x);
  if constexpr (op == UnaryOp::sqrt) return std::sqrt(x);
  if constexpr (op == UnaryOp::square) return x * x;
}

/// The derivative, computed from what the operation keeps (`unary_keeps_input`), which is its input or its output.
template <UnaryOp op, class T>
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline T unary_slope(T kept) {
  if constexpr (op == UnaryOp::relu) return kept > T(0) ? T(1) : T(0);
  if constexpr (op == UnaryOp::relu6) return kept > T(0) && kept < T(6) ? T(1) : T(0);
  if constexpr (op == UnaryOp::sigmoid) return kept * (T(1) - kept);
  if constexpr (op == UnaryOp::tanh) return T(1) - kept * kept;
  if constexpr (op == UnaryOp::gelu) return standard_normal_cdf(kept) + kept * standard_normal_density(kept);
  if constexpr (op == UnaryOp::negate) return T(-1);
  if constexpr (op == UnaryOp::exp) return kept;
  if constexpr (op == UnaryOp::log) return T(1) / kept;
  if constexpr (op == UnaryOp::sqrt) return T(0.5) / kept;
  if constexpr (op == UnaryOp::square) return T(2) * kept;
}

/// Whether the left one of two elements of a row comes first in descending order. NaN comes before everything, and of
/// equal elements the one with the lower index.
template <class T>
HEDDLE_HOST_DEVICE bool ranks_before(T left, std::int64_t left_index, T right, std::int64_t right_index) {
  const bool left_is_nan = left != left;
  const bool right_is_nan = right != right;
  if (left_is_nan != right_is_nan) return left_is_nan;
  return left > right || (!(right > left) && left_index < right_index);
}

template <BinaryOp op, class T>
HEDDLE_HOST_DEVICE T binary_value(T a, T b) {
  if constexpr (op == BinaryOp::add) return a + b;
  if constexpr (op == BinaryOp::subtract) return a - b;
  if constexpr (op == BinaryOp::multiply) return a * b;
  if constexpr (op == BinaryOp::divide) return a / b;
}

/// Calls f with the operation as a compile-time constant.
template <class F>
decltype(auto) visit(UnaryOp op, F&& f) {
  switch (op) {
    case UnaryOp::relu:
      return f(std::integral_constant<UnaryOp, UnaryOp::relu>{});
    case UnaryOp::relu6:
      return f(std::integral_constant<UnaryOp, UnaryOp::relu6>{});
    case UnaryOp::sigmoid:
      return f(std::integral_constant<UnaryOp, UnaryOp::sigmoid>{});
    case UnaryOp::tanh:
      return f(std::integral_constant<UnaryOp, UnaryOp::tanh>{});
    case UnaryOp::gelu:
      return f(std::integral_constant<UnaryOp, UnaryOp::gelu>{});
    case UnaryOp::negate:
      return f(std::integral_constant<UnaryOp, UnaryOp::negate>{});
    case UnaryOp::exp:
      return f(std::integral_constant<UnaryOp, UnaryOp::exp>{});
    case UnaryOp::log:
      return f(std::integral_constant<UnaryOp, UnaryOp::log>{});
    case UnaryOp::sqrt:
      return f(std::integral_constant<UnaryOp, UnaryOp::sqrt>{});
    case UnaryOp::square:
      break;
  }
  return f(std::integral_constant<UnaryOp, UnaryOp::square>{});
}

template <class F>
decltype(auto) visit(BinaryOp op, F&& f) {
  switch (op) {
    case BinaryOp::add:
      return f(std::integral_constant<BinaryOp, BinaryOp::add>{});
    case BinaryOp::subtract:
      return f(std::integral_constant<BinaryOp, BinaryOp::subtract>{});
    case BinaryOp::multiply:
      return f(std::integral_constant<BinaryOp, BinaryOp::multiply>{});
    case BinaryOp::divide:
      break;
  }
  return f(std::integral_constant<BinaryOp, BinaryOp::divide>{});
}

/// The four words at position `block` of a stream; `words` = purpose_key(key.key, key.purpose).
HEDDLE_HOST_DEVICE inline PhiloxBlock draw_block(const PhiloxBlock& words, const DrawKey& key, std::uint64_t block) {
  return philox(
      PhiloxBlock{{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), key.step, key.layer}},
      words.word[0], words.word[1]);
}
/// One word per element, four elements per block.
HEDDLE_HOST_DEVICE inline float uniform_draw(const PhiloxBlock& block, std::uint64_t element) {
  return uniform_from_bits(block.word[element & 3U]);
}
/// Two words per element, two elements per block.
HEDDLE_HOST_DEVICE inline double normal_draw(const PhiloxBlock& block, std::uint64_t element) {
  const auto first = static_cast<unsigned>(element & 1U) * 2U;
  return normal_from_bits(block.word[first], block.word[first + 1]);
}

/// a * b + c, rounded once where the machine can, so that all kernels of one formula give the same bits: where c is a
/// product, compilers would choose which of the two products is rounded.
template <class T>
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline T multiply_add(T a, T b, T c) {
#if defined(__CUDA_ARCH__) || defined(__FP_FAST_FMA)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

/// a * b + c * d, of which the second product is rounded where the machine rounds a * b + c once.
template <class T>
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline T add_products(T a, T b, T c, T d) {
#if defined(__CUDA_ARCH__) || defined(__FP_FAST_FMA)
  return std::fma(a, b, c * d);
#else
  return a * b + c * d;
#endif
}

/// The step of one weight, with the constants of SgdStep narrowed to T.
template <class T>
struct SgdUpdate {
  T learning_rate, momentum, weight_decay;
  bool nesterov;

  SgdUpdate() = default;
  explicit SgdUpdate(const SgdStep& step)
      : learning_rate(static_cast<T>(step.learning_rate)),
        momentum(static_cast<T>(step.momentum)),
        weight_decay(static_cast<T>(step.weight_decay)),
        nesterov(step.nesterov) {}

  HEDDLE_HOST_DEVICE T without_momentum(T gradient, T weight) const {
    return multiply_add(-learning_rate, multiply_add(weight_decay, weight, gradient), weight);
  }
  HEDDLE_HOST_DEVICE T operator()(T gradient, T weight, T& velocity) const {
    const T decayed = multiply_add(weight_decay, weight, gradient);
    velocity = multiply_add(momentum, velocity, decayed);
    return multiply_add(-learning_rate, nesterov ? multiply_add(momentum, velocity, decayed) : velocity, weight);
  }
};

template <class T>
struct AdamWUpdate {
  T decay, beta1, beta2, epsilon, rate, root_correction;

  AdamWUpdate() = default;
  explicit AdamWUpdate(const AdamWStep& step)
      : decay(static_cast<T>(1 - step.learning_rate * step.weight_decay)),
        beta1(static_cast<T>(step.beta1)),
        beta2(static_cast<T>(step.beta2)),
        epsilon(static_cast<T>(step.epsilon)),
        rate(static_cast<T>(step.learning_rate / (1 - std::pow(step.beta1, static_cast<double>(step.step))))),
        root_correction(static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, static_cast<double>(step.step))))) {}

  HEDDLE_HOST_DEVICE T operator()(T gradient, T weight, T& mean, T& square) const {
    mean = add_products(beta1, mean, T(1) - beta1, gradient);
    square = add_products(beta2, square, (T(1) - beta2) * gradient, gradient);
    return multiply_add(decay, weight, -(rate * mean / multiply_add(std::sqrt(square), root_correction, epsilon)));
  }
};

/// The update that a step prescribes, computed in T.
template <class T>
SgdUpdate<T> update_in(const SgdStep& step) {
  return SgdUpdate<T>(step);
}
template <class T>
AdamWUpdate<T> update_in(const AdamWStep& step) {
  return AdamWUpdate<T>(step);
}

}  // namespace heddle
