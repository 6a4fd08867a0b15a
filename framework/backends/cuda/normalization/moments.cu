// Moments of groups of rows, merged in their order.
#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/launch.cuh"
#include "framework/kernels/normalization.h"
#include "framework/scalars/moments.h"

namespace heddle::cuda {

namespace {

template <class T>
void combine_moments_as(const Context& context, const Tensor& groups, Tensor& merged) {
  using C = Compute<T>;
  const std::int64_t rows = groups.shape()[0];
  const std::int64_t channels = groups.shape()[1] / 2;
  const T* const from = groups.as<const T>();
  T* const to = merged.as<T>();
  for_each(context, channels + 1, [=] __device__(std::int64_t c) {
    if (c == channels) {
      double count = 0;
      for (std::int64_t g = 0; g < rows; ++g) count += static_cast<double>(from[g * (2 * channels + 1)]);
      to[0] = static_cast<T>(static_cast<C>(count));
      return;
    }
    const Moments all = merged_moments(from, rows, channels, c);
    to[1 + c] = static_cast<T>(static_cast<C>(all.mean));
    to[1 + channels + c] = static_cast<T>(static_cast<C>(all.squares));
  });
}

template <class T>
void merge_moments_as(const Context& context, const Tensor& groups, double momentum, Tensor& running_mean,
                      Tensor& running_variance) {
  using C = Compute<T>;
  const std::int64_t rows = groups.shape()[0];
  const std::int64_t channels = running_mean.numel();
  const T* const from = groups.as<const T>();
  C* const means = running_mean.as<C>();
  C* const variances = running_variance.as<C>();
  for_each(context, channels, [=] __device__(std::int64_t c) {
    const auto blended = [=](C running, double fresh) {
      return static_cast<C>((1 - momentum) * static_cast<double>(running) + momentum * fresh);
    };
    const Moments all = merged_moments(from, rows, channels, c);
    if (all.count == 0) return;
    means[c] = blended(means[c], all.mean);
    variances[c] = blended(variances[c], all.squares / (all.count > 2 ? all.count - 1 : 1.0));
  });
}

template <class T>
void inverse_deviation_as(const Context& context, const Tensor& variance, double factor, double epsilon,
                          Tensor& inverse) {
  using C = Compute<T>;
  const auto by = static_cast<C>(factor);
  const auto more = static_cast<C>(epsilon);
  map(
      context, variance.numel(), inverse.as<T>(), [=] __device__(C x) { return C(1) / std::sqrt(by * x + more); },
      variance.as<const T>());
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void NormalizationKernelsOn<cuda::Context>::combine_moments(const Tensor& groups, Tensor& merged) const {
  visit_floating(groups.dtype(), "combine_moments",
                 [&]<class T>(T) { cuda::combine_moments_as<T>(context_, groups, merged); });
}

template <>
void NormalizationKernelsOn<cuda::Context>::merge_moments(const Tensor& groups, double momentum, Tensor& running_mean,
                                                          Tensor& running_variance) const {
  visit_floating(groups.dtype(), "merge_moments", [&]<class T>(T) {
    cuda::merge_moments_as<T>(context_, groups, momentum, running_mean, running_variance);
  });
}

template <>
void NormalizationKernelsOn<cuda::Context>::inverse_deviation(const Tensor& variance, double factor, double epsilon,
                                                              Tensor& inverse) const {
  visit_floating(variance.dtype(), "inverse_deviation",
                 [&]<class T>(T) { cuda::inverse_deviation_as<T>(context_, variance, factor, epsilon, inverse); });
}

}  // namespace heddle
