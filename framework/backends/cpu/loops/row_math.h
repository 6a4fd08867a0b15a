// Maximum and sum of exponentials of one row, in a fixed order: what softmax, log-sum-exp and the head share.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "framework/backends/cpu/loops/assign.h"
#include "framework/backends/cpu/loops/sums.h"
#include "framework/scalars/scalar.h"
#include "framework/tensors/shape.h"

namespace heddle::cpu {

/// Largest value(i), -inf if there is none.
template <class C, class F>
C row_maximum(std::int64_t count, F value) {
  constexpr int lanes = 32;
  std::array<C, lanes> partial;
  partial.fill(-std::numeric_limits<C>::infinity());
  C* const maximum = partial.data();
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) {
      const C v = value(i + lane);
      maximum[lane] = v > maximum[lane] ? v : maximum[lane];
    }
  for (int lane = 0; i < count; ++i, ++lane) maximum[lane] = std::max(maximum[lane], value(i));
  return *std::max_element(partial.begin(), partial.end());
}

/// Sum of exp(value(i) - reference) in f64; `each(i, exponential)` sees every term.
template <class C, class F, class Each>
double sum_of_exponentials(std::int64_t count, F value, C reference, Each each) {
  constexpr std::int64_t stretch = 256;
  std::array<C, stretch> buffer;
  C* const terms = buffer.data();
  double total = 0;
  for (std::int64_t begin = 0; begin < count; begin += stretch) {
    const std::int64_t length = std::min(stretch, count - begin);
    for (std::int64_t i = 0; i < length; ++i) terms[i] = exponential(value(begin + i) - reference);
    for (std::int64_t i = 0; i < length; ++i) each(begin + i, terms[i]);
    total += lane_sum<double>(0, length, [terms](std::int64_t i) { return static_cast<double>(terms[i]); });
  }
  return total;
}

template <class C, class F>
double sum_of_exponentials(std::int64_t count, F value, C reference) {
  return sum_of_exponentials(count, value, reference, [](std::int64_t, C) {});
}

/// How many rows with this many columns are worth a thread.
inline std::int64_t rows_per_thread(std::int64_t columns) {
  return 1 + 16384 / std::max<std::int64_t>(columns, 1);
}

/// The row view of a tensor: the last dimension, and the product of the others.
struct RowView {
  std::int64_t rows;
  std::int64_t columns;
  explicit RowView(const Shape& shape) : rows(shape.product(0, shape.rank() - 1)), columns(shape.back()) {}
};

/// Calls body(row) for every row, spread over the team.
template <class F>
void for_each_row(const RowView& view, F body) {
  parallel_for(view.rows, rows_per_thread(view.columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

/// 1 / max(|x|, epsilon).
template <class C, class T>
C inverse_norm_of(const T* x, std::int64_t columns, double epsilon) {
  const double square = stretched_sum<C>(0, columns, [x](std::int64_t i) {
    const C value = static_cast<C>(x[i]);
    return value * value;
  });
  return static_cast<C>(1 / std::max(std::sqrt(square), epsilon));
}

/// sum(gradient * y) * inverse with y = x * inverse: the multiple of x that normalized_gradient subtracts.
template <class C, class T>
C projection_on_row(const T* x, const T* gradient, std::int64_t columns, C inverse) {
  const double dot =
      stretched_sum<C>(0, columns, [=](std::int64_t i) { return static_cast<C>(x[i]) * static_cast<C>(gradient[i]); });
  return static_cast<C>(dot) * inverse * inverse;
}

/// The gradient by a row x from `gradient`, that by x * inverse: (gradient - y * sum(gradient * y)) * inverse with
/// y = x * inverse. `to` may be `gradient`.
template <class C, class T>
void normalized_gradient(const T* x, const T* gradient, std::int64_t columns, C inverse, T* to) {
  const C along = projection_on_row(x, gradient, columns, inverse);
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i)
    assign(to[i], (static_cast<C>(gradient[i]) - static_cast<C>(x[i]) * along) * inverse);
}

}  // namespace heddle::cpu
