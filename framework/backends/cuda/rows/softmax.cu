#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/row_teams.cuh"
#include "framework/backends/cuda/rows/indices.h"
#include "framework/kernels/rows.h"
#include "framework/scalars/scalar.h"

namespace heddle::cuda {

namespace {

/// Sum of exp(x - maximum) over elements of which `maximum` is the largest; a NaN shows in the sum only.
struct Exponentials {
  double maximum;
  double sum;
};

/// Begins anew relative to every larger element; the sum is rescaled in f64, so that nothing is lost.
template <class C>
struct RunningSum {
  C maximum;
  double sum = 0;

  __device__ void add(C value) {
    if (value > maximum) {
      // The new term is 1, of an infinite value NaN.
      sum = sum * exponential(static_cast<double>(maximum) - static_cast<double>(value)) + (1 + (value - value));
      maximum = value;
    } else if (value != -std::numeric_limits<C>::infinity()) {
      sum += static_cast<double>(exponential(value - maximum));
    }
  }
};

__device__ Exponentials together(const Exponentials& a, const Exponentials& b) {
  const double maximum = b.maximum > a.maximum ? b.maximum : a.maximum;
  const auto share = [maximum](const Exponentials& part) {
    return part.maximum == maximum ? part.sum : part.sum * exponential(part.maximum - maximum);
  };
  return {maximum, share(a) + share(b)};
}

/// Short rows are read for their largest element first and then, from a cache, for the sum. So is the beginning of long
/// ones, of whose other elements few are still larger.
template <class Team, class T>
__device__ Exponentials exponentials_of(const Team& team, const T* row) {
  using C = Compute<T>;
  C maximum = -std::numeric_limits<C>::infinity();
  const auto larger_number = [](C a, C b) { return b > a ? b : a; };
  team.beginning().for_each([&](std::int64_t, C value) { maximum = larger_number(maximum, value); }, row);
  RunningSum<C> mine{team.reduce(maximum, larger_number)};
  team.for_each([&](std::int64_t, C value) { mine.add(value); }, row);
  return team.reduce(Exponentials{static_cast<double>(mine.maximum), mine.sum}, together);
}

template <class T>
void softmax_as(const Context& context, const Tensor& x, Tensor& y) {
  using C = Compute<T>;
  const T* const from = x.as<const T>();
  T* const to = y.as<T>();
  for_each_team(context, rows_of(x.shape()), [=] __device__(const auto& team) {
    const Exponentials all = exponentials_of(team, team.of(from));
    const C maximum = static_cast<C>(all.maximum);
    const C factor = static_cast<C>(1 / all.sum);
    team.map(
        team.of(to), [=](std::int64_t, C value) { return exponential(value - maximum) * factor; }, team.of(from));
  });
}

template <class T>
void softmax_backward_as(const Context& context, const Tensor& y, const Tensor& dy, Tensor& dx) {
  using C = Compute<T>;
  const T* const shares = y.as<const T>();
  const T* const gradients = dy.as<const T>();
  T* const to = dx.as<T>();
  for_each_team(context, rows_of(y.shape()), [=] __device__(const auto& team) {
    const C mean = static_cast<C>(team.sum([](std::int64_t, C share, C gradient) { return share * gradient; },
                                           team.of(shares), team.of(gradients)));
    team.map(
        team.of(to), [=](std::int64_t, C share, C gradient) { return share * (gradient - mean); }, team.of(shares),
        team.of(gradients));
  });
}

template <class T>
void log_sum_exp_as(const Context& context, const Tensor& x, Tensor& y) {
  using C = Compute<T>;
  const T* const from = x.as<const T>();
  C* const to = y.as<C>();
  for_each_team(context, rows_of(x.shape()), [=] __device__(const auto& team) {
    const Exponentials all = exponentials_of(team, team.of(from));
    if (team.is_first()) to[team.row()] = static_cast<C>(all.maximum + std::log(all.sum));
  });
}

template <class T>
void log_sum_exp_backward_as(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) {
  using C = Compute<T>;
  const T* const from = x.as<const T>();
  const C* const log_sums = y.as<const C>();
  const C* const gradients = dy.as<const C>();
  T* const to = dx.as<T>();
  for_each_team(context, stretches_of(x.shape()), [=] __device__(const auto& team) {
    const C log_sum = log_sums[team.row()];
    const C gradient = gradients[team.row()];
    team.map(
        team.of(to), [=](std::int64_t, C value) { return gradient * exponential(value - log_sum); }, team.of(from));
  });
}

template <class T>
void cross_entropy_as(const Context& context, const Tensor& x, const Tensor& log_sums, const Tensor& labels,
                      Tensor& loss) {
  using C = Compute<T>;
  const std::int64_t columns = x.shape().back();
  const T* const from = x.as<const T>();
  const C* const sums = log_sums.as<const C>();
  const std::int64_t* const label = labels.as<const std::int64_t>();
  C* const to = loss.as<C>();
  check_indices(context, Fault::Of::label, label, labels.numel(), columns);
  for_each(context, labels.numel(), [=] __device__(std::int64_t row) {
    if (label[row] >= 0 && label[row] < columns) to[row] = sums[row] - static_cast<C>(from[row * columns + label[row]]);
  });
}

template <class T>
void cross_entropy_backward_as(const Context& context, const Tensor& x, const Tensor& log_sums, const Tensor& labels,
                               const Tensor& dloss, Tensor& dx) {
  using C = Compute<T>;
  const T* const from = x.as<const T>();
  const C* const sums = log_sums.as<const C>();
  const std::int64_t* const label = labels.as<const std::int64_t>();
  const C* const gradients = dloss.as<const C>();
  T* const to = dx.as<T>();
  for_each_team(context, stretches_of(x.shape()), [=] __device__(const auto& team) {
    const C log_sum = sums[team.row()];
    const C gradient = gradients[team.row()];
    const std::int64_t target = label[team.row()] - team.begin();
    team.map(
        team.of(to),
        [=](std::int64_t i, C value) {
          // expm1 keeps the digits of a probability near one.
          return gradient * (i == target ? std::expm1(value - log_sum) : exponential(value - log_sum));
        },
        team.of(from));
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void RowKernelsOn<cuda::Context>::softmax(const Tensor& x, Tensor& y) const {
  visit_floating(x.dtype(), "softmax", [&]<class T>(T) { cuda::softmax_as<T>(context_, x, y); });
}

template <>
void RowKernelsOn<cuda::Context>::softmax_backward(const Tensor& y, const Tensor& dy, Tensor& dx) const {
  visit_floating(y.dtype(), "softmax", [&]<class T>(T) { cuda::softmax_backward_as<T>(context_, y, dy, dx); });
}

template <>
void RowKernelsOn<cuda::Context>::log_sum_exp(const Tensor& x, Tensor& y) const {
  visit_floating(x.dtype(), "log_sum_exp", [&]<class T>(T) { cuda::log_sum_exp_as<T>(context_, x, y); });
}

template <>
void RowKernelsOn<cuda::Context>::log_sum_exp_backward(const Tensor& x, const Tensor& y, const Tensor& dy,
                                                       Tensor& dx) const {
  visit_floating(x.dtype(), "log_sum_exp",
                 [&]<class T>(T) { cuda::log_sum_exp_backward_as<T>(context_, x, y, dy, dx); });
}

template <>
void RowKernelsOn<cuda::Context>::cross_entropy(const Tensor& x, const Tensor& log_sums, const Tensor& labels,
                                                Tensor& loss) const {
  visit_floating(x.dtype(), "cross_entropy",
                 [&]<class T>(T) { cuda::cross_entropy_as<T>(context_, x, log_sums, labels, loss); });
}

template <>
void RowKernelsOn<cuda::Context>::cross_entropy_backward(const Tensor& x, const Tensor& log_sums, const Tensor& labels,
                                                         const Tensor& dloss, Tensor& dx) const {
  visit_floating(x.dtype(), "cross_entropy",
                 [&]<class T>(T) { cuda::cross_entropy_backward_as<T>(context_, x, log_sums, labels, dloss, dx); });
}

}  // namespace heddle
