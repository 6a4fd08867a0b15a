#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/row_teams.cuh"
#include "framework/backends/cuda/device/sums.cuh"
#include "framework/kernels/normalization.h"

namespace heddle::cuda {

namespace {

template <class T>
void l2_normalize_as(const Context& context, const Tensor& x, double epsilon, Tensor& y, Tensor& inverse_norm) {
  using C = Compute<T>;
  const T* const from = x.as<const T>();
  T* const to = data_or_null<T>(y);
  C* const inverses = inverse_norm.as<C>();
  for_each_team(context, rows_of(x.shape()), [=] __device__(const auto& team) {
    const double square = team.sum([](std::int64_t, C value) { return value * value; }, team.of(from));
    const double norm = std::sqrt(square);
    const C inverse = static_cast<C>(1 / (norm < epsilon ? epsilon : norm));
    if (team.is_first()) inverses[team.row()] = inverse;
    if (to != nullptr)
      team.map(
          team.of(to), [=](std::int64_t, C value) { return value * inverse; }, team.of(from));
  });
}

template <class T>
void l2_normalize_backward_as(const Context& context, const Tensor& x, const Tensor& inverse_norm, const Tensor& dy,
                              Tensor& dx) {
  using C = Compute<T>;
  const T* const from = x.as<const T>();
  const T* const gradients = dy.as<const T>();
  const C* const inverses = inverse_norm.as<const C>();
  T* const to = dx.as<T>();
  for_each_team(context, rows_of(x.shape()), [=] __device__(const auto& team) {
    const C inverse = inverses[team.row()];
    const double dot =
        team.sum([](std::int64_t, C value, C gradient) { return value * gradient; }, team.of(from), team.of(gradients));
    const C along = static_cast<C>(dot) * inverse * inverse;
    team.map(
        team.of(to), [=](std::int64_t, C value, C gradient) { return (gradient - value * along) * inverse; },
        team.of(from), team.of(gradients));
  });
}

template <class T>
void layer_norm_as(const Context& context, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                   Tensor& y, Tensor& statistics) {
  using C = Compute<T>;
  const Stretches rows = rows_of(x.shape());
  const T* const from = x.as<const T>();
  const C* const factor = data_or_null<const C>(gamma);
  const C* const shift = data_or_null<const C>(beta);
  T* const to = y.as<T>();
  C* const means = statistics.as<C>();
  C* const inverses = means + rows.rows;
  const auto count = static_cast<double>(rows.columns);
  for_each_team(context, rows, [=] __device__(const auto& team) {
    const T* const row = team.of(from);
    const C mean = static_cast<C>(team.sum([](std::int64_t, C value) { return value; }, row) / count);
    const double square = team.sum([mean](std::int64_t, C value) { return (value - mean) * (value - mean); }, row);
    const C inverse = static_cast<C>(1 / std::sqrt(square / count + epsilon));
    if (team.is_first()) {
      means[team.row()] = mean;
      inverses[team.row()] = inverse;
    }
    const auto normalised = [=](C value) { return (value - mean) * inverse; };
    if (factor != nullptr && shift != nullptr)
      team.map(
          team.of(to), [=](std::int64_t, C value, C times, C plus) { return normalised(value) * times + plus; }, row,
          factor, shift);
    else
      team.map(
          team.of(to),
          [=](std::int64_t i, C value) {
            return normalised(value) * (factor != nullptr ? factor[i] : C(1)) + (shift != nullptr ? shift[i] : C(0));
          },
          row);
  });
}

/// sum(dy) or sum(dy * normalised x) over the rows.
template <class T>
void layer_norm_parameters(const Context& context, const Tensor& x, const Tensor& statistics, const Tensor& dy,
                           Tensor& dgamma, Tensor& dbeta) {
  using C = Compute<T>;
  const Stretches rows = rows_of(x.shape());
  const std::int64_t columns = rows.columns;
  const T* const in = x.as<const T>();
  const T* const gradients = dy.as<const T>();
  const C* const means = statistics.as<const C>();
  const C* const inverses = means + rows.rows;
  if (columns == 0) return;
  if (C* const to = data_or_null<C>(dgamma))
    sum_columns(
        context, 1, rows.rows, columns,
        [=] __device__(std::int64_t row, std::int64_t column) {
          const std::int64_t at = row * columns + column;
          return static_cast<C>(gradients[at]) * (static_cast<C>(in[at]) - means[row]) * inverses[row];
        },
        [=] __device__(std::int64_t column, double sum) { to[column] = static_cast<C>(sum); });
  if (C* const to = data_or_null<C>(dbeta))
    sum_columns(
        context, 1, rows.rows, columns,
        [=] __device__(std::int64_t row, std::int64_t column) {
          return static_cast<C>(gradients[row * columns + column]);
        },
        [=] __device__(std::int64_t column, double sum) { to[column] = static_cast<C>(sum); });
}

/// Sums over a row of the gradient by the normalised row, and of its product with that row.
struct GradientSums {
  double gradient;
  double along;
};

template <class T>
void layer_norm_input(const Context& context, const Tensor& x, const Tensor& gamma, const Tensor& statistics,
                      const Tensor& dy, Tensor& dx) {
  using C = Compute<T>;
  const Stretches rows = rows_of(x.shape());
  const T* const in = x.as<const T>();
  const T* const gradients = dy.as<const T>();
  const C* const factor = data_or_null<const C>(gamma);
  const C* const means = statistics.as<const C>();
  const C* const inverses = means + rows.rows;
  T* const to = dx.as<T>();
  const auto count = static_cast<double>(rows.columns);
  for_each_team(context, rows, [=] __device__(const auto& team) {
    const C mean = means[team.row()];
    const C inverse = inverses[team.row()];
    const T* const row = team.of(in);
    const T* const gradient_row = team.of(gradients);
    const auto normalised = [=](C value) { return (value - mean) * inverse; };
    GradientSums mine{0, 0};
    const auto add = [&](C value, C scaled) {
      mine.gradient += static_cast<double>(scaled);
      mine.along += static_cast<double>(scaled * normalised(value));
    };
    if (factor != nullptr)
      team.for_each([&](std::int64_t, C value, C gradient, C times) { add(value, gradient * times); }, row,
                    gradient_row, factor);
    else
      team.for_each([&](std::int64_t, C value, C gradient) { add(value, gradient); }, row, gradient_row);
    const GradientSums all = team.reduce(mine, [](const GradientSums& a, const GradientSums& b) {
      return GradientSums{a.gradient + b.gradient, a.along + b.along};
    });
    const C average = static_cast<C>(all.gradient / count);
    const C along = static_cast<C>(all.along / count);
    const auto input = [=](C value, C scaled) { return (scaled - average - normalised(value) * along) * inverse; };
    if (factor != nullptr)
      team.map(
          team.of(to), [=](std::int64_t, C value, C gradient, C times) { return input(value, gradient * times); }, row,
          gradient_row, factor);
    else
      team.map(
          team.of(to), [=](std::int64_t, C value, C gradient) { return input(value, gradient); }, row, gradient_row);
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void NormalizationKernelsOn<cuda::Context>::l2_normalize(const Tensor& x, double epsilon, Tensor& y,
                                                         Tensor& inverse_norm) const {
  visit_floating(x.dtype(), "l2_normalize",
                 [&]<class T>(T) { cuda::l2_normalize_as<T>(context_, x, epsilon, y, inverse_norm); });
}

template <>
void NormalizationKernelsOn<cuda::Context>::l2_normalize_backward(const Tensor& x, const Tensor& inverse_norm,
                                                                  const Tensor& dy, Tensor& dx) const {
  visit_floating(x.dtype(), "l2_normalize",
                 [&]<class T>(T) { cuda::l2_normalize_backward_as<T>(context_, x, inverse_norm, dy, dx); });
}

template <>
void NormalizationKernelsOn<cuda::Context>::layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                                       double epsilon, Tensor& y, Tensor& statistics) const {
  visit_floating(x.dtype(), "layer_norm",
                 [&]<class T>(T) { cuda::layer_norm_as<T>(context_, x, gamma, beta, epsilon, y, statistics); });
}

template <>
void NormalizationKernelsOn<cuda::Context>::layer_norm_backward(const Tensor& x, const Tensor& gamma,
                                                                const Tensor& statistics, const Tensor& dy, Tensor& dx,
                                                                Tensor& dgamma, Tensor& dbeta) const {
  visit_floating(x.dtype(), "layer_norm", [&]<class T>(T) {
    cuda::layer_norm_parameters<T>(context_, x, statistics, dy, dgamma, dbeta);
    if (dx.defined()) cuda::layer_norm_input<T>(context_, x, gamma, statistics, dy, dx);
  });
}

}  // namespace heddle
