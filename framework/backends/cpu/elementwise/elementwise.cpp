#include "framework/kernels/elementwise.h"

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/assign.h"
#include "framework/backends/cpu/loops/parallel.h"
#include "framework/backends/cpu/loops/sums.h"
#include "framework/scalars/scalar.h"

namespace heddle::cpu {

namespace {

template <class T, class F>
void map(const Tensor& x, Tensor& y, F f) {
  using C = Compute<T>;
  const T* const from = x.as<const T>();
  T* const to = y.as<T>();
  parallel_for(y.numel(), default_grain, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd  // to may be from, element by element
    for (std::int64_t i = begin; i < end; ++i) assign(to[i], f(static_cast<C>(from[i])));
  });
}

template <class T, class F>
void map(const Tensor& a, const Tensor& b, Tensor& y, F f) {
  using C = Compute<T>;
  const T* const left = a.as<const T>();
  const T* const right = b.as<const T>();
  T* const to = y.as<T>();
  parallel_for(y.numel(), default_grain, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) assign(to[i], f(static_cast<C>(left[i]), static_cast<C>(right[i])));
  });
}

/// Calls body(row) for the rows of `channels` elements.
template <class F>
void for_rows(std::int64_t elements, std::int64_t channels, F body) {
  if (elements == 0) return;
  parallel_for(elements / channels, 1 + default_grain / channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
void ElementwiseKernelsOn<cpu::Context>::fill(Tensor& y, double value) const {
  visit_any(y.dtype(), [&]<class T>(T) {
    T* const to = y.as<T>();
    T narrow;
    if constexpr (std::is_integral_v<T>)
      narrow = static_cast<T>(value);
    else
      narrow = static_cast<T>(static_cast<Compute<T>>(value));
    cpu::parallel_for(y.numel(), 2 * cpu::default_grain,
                      [&](std::int64_t begin, std::int64_t end) { std::fill(to + begin, to + end, narrow); });
  });
}

template <>
void ElementwiseKernelsOn<cpu::Context>::unary(UnaryOp op, const Tensor& x, Tensor& y) const {
  visit_floating(x.dtype(), "unary", [&]<class T>(T) {
    visit(op, [&](auto which) {
      cpu::map<T>(x, y, [](Compute<T> value) { return unary_value<decltype(which)::value>(value); });
    });
  });
}

template <>
void ElementwiseKernelsOn<cpu::Context>::unary_backward(UnaryOp op, const Tensor& x, const Tensor& y, const Tensor& dy,
                                                        Tensor& dx) const {
  visit_floating(dy.dtype(), "unary", [&]<class T>(T) {
    visit(op, [&](auto which) {
      constexpr UnaryOp chosen = decltype(which)::value;
      cpu::map<T>(unary_keeps_input(chosen) ? x : y, dy, dx,
                  [](Compute<T> kept, Compute<T> gradient) { return gradient * unary_slope<chosen>(kept); });
    });
  });
}

template <>
void ElementwiseKernelsOn<cpu::Context>::scale_add(double alpha, const Tensor& x, double beta, Tensor& y) const {
  visit_floating(x.dtype(), "scale_add", [&]<class T>(T) {
    const auto factor = static_cast<Compute<T>>(alpha);
    const auto kept = static_cast<Compute<T>>(beta);
    if (beta == 0)
      cpu::map<T>(x, y, [=](Compute<T> value) { return factor * value; });
    else if (alpha == 1 && beta == 1)
      cpu::map<T>(x, y, y, [](Compute<T> value, Compute<T> old) { return value + old; });
    else
      cpu::map<T>(x, y, y, [=](Compute<T> value, Compute<T> old) { return factor * value + kept * old; });
  });
}

template <>
void ElementwiseKernelsOn<cpu::Context>::prelu(const Tensor& x, const Tensor& slope, Tensor& y) const {
  visit_floating(x.dtype(), "prelu", [&]<class T>(T) {
    using C = Compute<T>;
    const C* const factor = slope.as<const C>();
    if (slope.numel() == 1) {
      cpu::map<T>(x, y, [f = *factor](C v) { return v > C(0) ? v : f * v; });
      return;
    }
    const T* const from = x.as<const T>();
    T* const to = y.as<T>();
    const std::int64_t channels = slope.numel();
    cpu::for_rows(x.numel(), channels, [=](std::int64_t row) {
      const std::int64_t base = row * channels;
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) {
        const C v = static_cast<C>(from[base + c]);
        const C scaled = factor[c] * v;
        cpu::assign(to[base + c], v > C(0) ? v : scaled);
      }
    });
  });
}

template <>
void ElementwiseKernelsOn<cpu::Context>::prelu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy,
                                                        Tensor& dx, Tensor& dslope) const {
  visit_floating(x.dtype(), "prelu", [&]<class T>(T) {
    using C = Compute<T>;
    const T* const in = x.as<const T>();
    const T* const gradient = dy.as<const T>();
    const C* const factor = slope.as<const C>();
    const std::int64_t channels = slope.numel();
    if (dslope.defined()) {
      C* const to = dslope.as<C>();
      const auto share = [=](std::int64_t i) {
        const C v = static_cast<C>(in[i]);
        return static_cast<C>(gradient[i]) * std::min(v, C(0));
      };
      if (channels == 0) return;
      if (channels == 1)
        *to = static_cast<C>(cpu::parallel_sum<C>(x.numel(), share));
      else
        cpu::sum_columns<C>(
            x.numel() / channels, channels, [=](std::int64_t row, std::int64_t c) { return share(row * channels + c); },
            [=](std::int64_t c, double sum) { to[c] = static_cast<C>(sum); });
    }
    if (!dx.defined()) return;
    if (channels == 1) {
      cpu::map<T>(x, dy, dx, [f = *factor](C v, C g) { return v > C(0) ? g : f * g; });
      return;
    }
    T* const to = dx.as<T>();
    cpu::for_rows(x.numel(), channels, [=](std::int64_t row) {
      const std::int64_t base = row * channels;
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) {
        const C g = static_cast<C>(gradient[base + c]);
        const C scaled = factor[c] * g;
        cpu::assign(to[base + c], static_cast<C>(in[base + c]) > C(0) ? g : scaled);
      }
    });
  });
}

}  // namespace heddle
