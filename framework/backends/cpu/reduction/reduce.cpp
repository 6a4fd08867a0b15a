#include <limits>

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/sums.h"
#include "framework/kernels/reduction.h"
#include "framework/tensors/dtype.h"

namespace heddle::cpu {

namespace {

/// The larger; a NaN wins and stays.
template <class C>
C larger(C maximum, C value) {
  return value > maximum || value != value ? value : maximum;
}

template <class T>
void sums(const T* x, std::array<std::int64_t, 3> view, double factor, T* y) {
  using C = Compute<T>;
  const std::int64_t outer = view[0];
  const std::int64_t reduced = view[1];
  const std::int64_t inner = view[2];
  const auto write = [=](std::int64_t i, double sum) { y[i] = static_cast<T>(static_cast<C>(sum * factor)); };
  // Whether the team shares the outer loop or each sum does not change a sum's order.
  const std::int64_t outer_grain = outer < 8 ? outer : 1 + default_grain / std::max<std::int64_t>(reduced * inner, 1);
  parallel_for(outer, outer_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      const T* const block = x + o * reduced * inner;
      if (inner == 1)
        write(o, parallel_sum<C>(reduced, [block](std::int64_t r) { return static_cast<C>(block[r]); }));
      else
        sum_columns<C>(
            reduced, inner, [=](std::int64_t r, std::int64_t i) { return static_cast<C>(block[r * inner + i]); },
            [&, base = o * inner](std::int64_t i, double sum) { write(base + i, sum); });
    }
  });
}

template <class T>
void maxima(const T* x, std::array<std::int64_t, 3> view, T* y) {
  using C = Compute<T>;
  constexpr int lanes = 64;  // fewer are not made vectors of
  const std::int64_t outer = view[0];
  const std::int64_t reduced = view[1];
  const std::int64_t inner = view[2];
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  parallel_for(outer * inner, 1 + default_grain / std::max<std::int64_t>(reduced, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t at = begin; at < end;) {
                   const std::int64_t o = at / inner;
                   const std::int64_t first = at % inner;
                   const std::int64_t width = std::min<std::int64_t>({lanes, inner - first, end - at});
                   const T* const from = x + o * reduced * inner + first;
                   std::array<C, lanes> maximum;
                   maximum.fill(lowest);
                   if (inner == 1) {
                     std::int64_t r = 0;
                     for (; r + lanes <= reduced; r += lanes)
                       for (int i = 0; i < lanes; ++i)
                         maximum.data()[i] = larger(maximum.data()[i], static_cast<C>(from[r + i]));
                     for (; r < reduced; ++r) maximum[0] = larger(maximum[0], static_cast<C>(from[r]));
                     for (int i = 1; i < lanes; ++i) maximum[0] = larger(maximum[0], maximum.data()[i]);
                   } else {
                     for (std::int64_t r = 0; r < reduced; ++r)
                       for (std::int64_t i = 0; i < width; ++i)
                         maximum.data()[i] = larger(maximum.data()[i], static_cast<C>(from[r * inner + i]));
                   }
                   for (std::int64_t i = 0; i < width; ++i) y[at + i] = static_cast<T>(maximum.data()[i]);
                   at += width;
                 }
               });
}

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
void ReductionKernelsOn<cpu::Context>::reduce(ReduceOp op, const Tensor& x, std::array<std::int64_t, 3> view,
                                              Tensor& y) const {
  visit_floating(x.dtype(), "reduce", [&]<class T>(T) {
    if (op == ReduceOp::max)
      cpu::maxima(x.as<const T>(), view, y.as<T>());
    else
      cpu::sums(x.as<const T>(), view, op == ReduceOp::mean ? 1 / static_cast<double>(view[1]) : 1.0, y.as<T>());
  });
}

template <>
void ReductionKernelsOn<cpu::Context>::reduce_max_backward(const Tensor& x, const Tensor& y,
                                                           std::array<std::int64_t, 3> view, const Tensor& dy,
                                                           Tensor& dx) const {
  visit_floating(x.dtype(), "reduce", [&]<class T>(T) {
    using C = Compute<T>;
    const std::int64_t outer = view[0];
    const std::int64_t reduced = view[1];
    const std::int64_t inner = view[2];
    const T* const from = x.as<const T>();
    const T* const maximum = y.as<const T>();
    const T* const gradient = dy.as<const T>();
    T* const to = dx.as<T>();
    cpu::parallel_for(outer, 1 + cpu::default_grain / std::max<std::int64_t>(reduced * inner, 1),
                      [&](std::int64_t begin, std::int64_t end) {
                        std::fill(to + begin * reduced * inner, to + end * reduced * inner, T{});
                        for (std::int64_t o = begin; o < end; ++o)
                          for (std::int64_t i = 0; i < inner; ++i) {
                            const C wanted = static_cast<C>(maximum[o * inner + i]);
                            for (std::int64_t r = 0; r < reduced; ++r) {
                              const std::int64_t at = (o * reduced + r) * inner + i;
                              const C value = static_cast<C>(from[at]);
                              if (value != wanted && value == value) continue;
                              to[at] = gradient[o * inner + i];
                              break;
                            }
                          }
                      });
  });
}

}  // namespace heddle
