#include <cmath>

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/assign.h"
#include "framework/backends/cpu/loops/row_math.h"
#include "framework/kernels/normalization.h"

namespace heddle {

template <>
void NormalizationKernelsOn<cpu::Context>::l2_normalize(const Tensor& x, double epsilon, Tensor& y,
                                                        Tensor& inverse_norm) const {
  visit_floating(x.dtype(), "l2_normalize", [&]<class T>(T) {
    using C = Compute<T>;
    const cpu::RowView view(x.shape());
    cpu::for_each_row(view, [&](std::int64_t row) {
      const T* const from = x.as<const T>() + row * view.columns;
      const C factor = cpu::inverse_norm_of<C>(from, view.columns, epsilon);
      inverse_norm.as<C>()[row] = factor;
      if (!y.defined()) return;
      T* const to = y.as<T>() + row * view.columns;
#pragma omp simd
      for (std::int64_t i = 0; i < view.columns; ++i) cpu::assign(to[i], static_cast<C>(from[i]) * factor);
    });
  });
}

template <>
void NormalizationKernelsOn<cpu::Context>::l2_normalize_backward(const Tensor& x, const Tensor& inverse_norm,
                                                                 const Tensor& dy, Tensor& dx) const {
  visit_floating(x.dtype(), "l2_normalize", [&]<class T>(T) {
    using C = Compute<T>;
    const cpu::RowView view(x.shape());
    cpu::for_each_row(view, [&](std::int64_t row) {
      const std::int64_t at = row * view.columns;
      cpu::normalized_gradient(x.as<const T>() + at, dy.as<const T>() + at, view.columns,
                               inverse_norm.as<const C>()[row], dx.as<T>() + at);
    });
  });
}

template <>
void NormalizationKernelsOn<cpu::Context>::layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                                      double epsilon, Tensor& y, Tensor& statistics) const {
  visit_floating(x.dtype(), "layer_norm", [&]<class T>(T) {
    using C = Compute<T>;
    const cpu::RowView view(x.shape());
    const C* const factor = gamma.defined() ? gamma.as<const C>() : nullptr;
    const C* const shift = beta.defined() ? beta.as<const C>() : nullptr;
    cpu::for_each_row(view, [&](std::int64_t row) {
      const T* const from = x.as<const T>() + row * view.columns;
      T* const to = y.as<T>() + row * view.columns;
      const auto count = static_cast<double>(view.columns);
      const double sum =
          cpu::stretched_sum<C>(0, view.columns, [from](std::int64_t i) { return static_cast<C>(from[i]); });
      const C mean = static_cast<C>(sum / count);
      const double square = cpu::stretched_sum<C>(0, view.columns, [=](std::int64_t i) {
        const C deviation = static_cast<C>(from[i]) - mean;
        return deviation * deviation;
      });
      const C inverse = static_cast<C>(1 / std::sqrt(square / count + epsilon));
      statistics.as<C>()[row] = mean;
      statistics.as<C>()[view.rows + row] = inverse;
      // Four short loops would not run faster: a missing gamma or beta is rare.
      for (std::int64_t i = 0; i < view.columns; ++i) {
        const C normalized = (static_cast<C>(from[i]) - mean) * inverse;
        to[i] =
            static_cast<T>(normalized * (factor != nullptr ? factor[i] : C(1)) + (shift != nullptr ? shift[i] : C(0)));
      }
    });
  });
}

template <>
void NormalizationKernelsOn<cpu::Context>::layer_norm_backward(const Tensor& x, const Tensor& gamma,
                                                               const Tensor& statistics, const Tensor& dy, Tensor& dx,
                                                               Tensor& dgamma, Tensor& dbeta) const {
  visit_floating(x.dtype(), "layer_norm", [&]<class T>(T) {
    using C = Compute<T>;
    const cpu::RowView view(x.shape());
    const T* const in = x.as<const T>();
    const T* const gradients = dy.as<const T>();
    const C* const means = statistics.as<const C>();
    const C* const inverses = means + view.rows;
    const C* const factor = gamma.defined() ? gamma.as<const C>() : nullptr;
    const std::int64_t columns = view.columns;
    if (dgamma.defined())
      cpu::sum_columns<C>(
          view.rows, columns,
          [=](std::int64_t r, std::int64_t c) {
            const std::int64_t at = r * columns + c;
            return static_cast<C>(gradients[at]) * (static_cast<C>(in[at]) - means[r]) * inverses[r];
          },
          [to = dgamma.as<C>()](std::int64_t c, double sum) { to[c] = static_cast<C>(sum); });
    if (dbeta.defined())
      cpu::sum_columns<C>(
          view.rows, columns,
          [=](std::int64_t r, std::int64_t c) { return static_cast<C>(gradients[r * columns + c]); },
          [to = dbeta.as<C>()](std::int64_t c, double sum) { to[c] = static_cast<C>(sum); });
    if (!dx.defined()) return;
    cpu::for_each_row(view, [&](std::int64_t row) {
      const T* const from = in + row * columns;
      const T* const gradient = gradients + row * columns;
      T* const to = dx.as<T>() + row * columns;
      const C mean = means[row];
      const C inverse = inverses[row];
      const auto scaled = [=](std::int64_t i) {
        return static_cast<C>(gradient[i]) * (factor != nullptr ? factor[i] : C(1));
      };
      const auto normalized = [=](std::int64_t i) { return (static_cast<C>(from[i]) - mean) * inverse; };
      const auto count = static_cast<double>(columns);
      const C average = static_cast<C>(cpu::stretched_sum<C>(0, columns, scaled) / count);
      const C along = static_cast<C>(
          cpu::stretched_sum<C>(0, columns, [=](std::int64_t i) { return scaled(i) * normalized(i); }) / count);
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i)
        cpu::assign(to[i], (scaled(i) - average - normalized(i) * along) * inverse);
    });
  });
}

}  // namespace heddle
