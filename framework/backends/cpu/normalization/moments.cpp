// Moments of groups of rows, merged in their order.
#include "framework/scalars/moments.h"

#include <algorithm>
#include <cmath>

#include "framework/backends/cpu/context.h"
#include "framework/kernels/normalization.h"

namespace heddle {

template <>
void NormalizationKernelsOn<cpu::Context>::combine_moments(const Tensor& groups, Tensor& merged) const {
  visit_floating(groups.dtype(), "combine_moments", [&]<class T>(T) {
    const std::int64_t columns = groups.shape()[1];
    const std::int64_t channels = columns / 2;
    T* const to = merged.as<T>();
    double count = 0;
    for (std::int64_t g = 0; g < groups.shape()[0]; ++g) count += groups.as<const T>()[g * columns];
    to[0] = static_cast<T>(static_cast<Compute<T>>(count));
    for (std::int64_t c = 0; c < channels; ++c) {
      const Moments all = merged_moments(groups.as<const T>(), groups.shape()[0], channels, c);
      to[1 + c] = static_cast<T>(static_cast<Compute<T>>(all.mean));
      to[1 + channels + c] = static_cast<T>(static_cast<Compute<T>>(all.squares));
    }
  });
}

template <>
void NormalizationKernelsOn<cpu::Context>::merge_moments(const Tensor& groups, double momentum, Tensor& running_mean,
                                                         Tensor& running_variance) const {
  visit_floating(groups.dtype(), "merge_moments", [&]<class T>(T) {
    using C = Compute<T>;
    const auto blend = [momentum](C& running, double fresh) {
      running = static_cast<C>((1 - momentum) * static_cast<double>(running) + momentum * fresh);
    };
    const std::int64_t channels = running_mean.numel();
    for (std::int64_t c = 0; c < channels; ++c) {
      const Moments all = merged_moments(groups.as<const T>(), groups.shape()[0], channels, c);
      if (all.count == 0) return;
      blend(running_mean.as<C>()[c], all.mean);
      blend(running_variance.as<C>()[c], all.squares / std::max(all.count - 1, 1.0));
    }
  });
}

template <>
void NormalizationKernelsOn<cpu::Context>::inverse_deviation(const Tensor& variance, double factor, double epsilon,
                                                             Tensor& inverse) const {
  visit_floating(variance.dtype(), "inverse_deviation", [&]<class T>(T) {
    using C = Compute<T>;
    const T* const x = variance.as<const T>();
    T* const y = inverse.as<T>();
    for (std::int64_t c = 0; c < variance.numel(); ++c)
      y[c] = static_cast<T>(C(1) / std::sqrt(static_cast<C>(factor) * static_cast<C>(x[c]) + static_cast<C>(epsilon)));
  });
}

}  // namespace heddle
