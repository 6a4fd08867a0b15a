// Normalisation over channels, with what follows the norm folded in: every kernel reads and writes each element once.
// Sums are those of channels.cuh, so that they depend on shapes only.
#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/channels.cuh"
#include "framework/backends/dispatch.h"
#include "framework/kernels/normalization.h"

namespace heddle::cuda {

namespace {

/// The affine map of each channel: pre = (x - mean) * factor + offset.
template <class C>
struct Affine {
  explicit Affine(const ChannelNorm& norm)
      : mean(norm.mean.as<C>()),
        inverse(norm.inverse_deviation.as<C>()),
        gamma(data_or_null<C>(norm.gamma)),
        beta(data_or_null<C>(norm.beta)),
        slope(data_or_null<C>(norm.slope)) {}
  const C* mean;
  const C* inverse;
  const C* gamma;
  const C* beta;
  const C* slope;
};

/// Its values for a thread's channels.
template <class C, int pack>
struct AffineValues {
  __device__ AffineValues(const Affine<C>& affine, const ChannelShare<pack>& share) {
    if (!share.has_channels) return;
    for (int e = 0; e < pack; ++e) {
      const std::int64_t c = share.channel + e;
      mean[e] = affine.mean[c];
      inverse[e] = affine.inverse[c];
      factor[e] = affine.gamma == nullptr ? inverse[e] : affine.gamma[c] * inverse[e];
      offset[e] = affine.beta == nullptr ? C(0) : affine.beta[c];
      slope[e] = affine.slope == nullptr ? C(0) : affine.slope[c];
    }
  }
  C mean[pack];
  C inverse[pack];
  C factor[pack];
  C offset[pack];
  C slope[pack];
};

template <NormActivation activation, class C>
__device__ C activated(C pre, C slope) {
  if constexpr (activation == NormActivation::relu)
    return pre < C(0) ? C(0) : pre;  // a NaN stays one
  else if constexpr (activation == NormActivation::prelu)
    return pre > C(0) ? pre : slope * pre;
  else
    return pre;
}

/// dy times the activation's derivative at `pre`.
template <NormActivation activation, class C>
__device__ C through(C dy, C pre, C slope) {
  if constexpr (activation == NormActivation::relu)
    return pre > C(0) ? dy : C(0);
  else if constexpr (activation == NormActivation::prelu)
    return pre > C(0) ? dy : slope * dy;
  else
    return dy;
}

/// What a part of the rows knows of a channel's moments.
struct PartMoments {
  double mean;
  double squares;  // sum of squared deviations from it
};

/// Each part sums about a value near its mean, that of some of its rows, so that nothing cancels; parts merge as
/// Chan, Golub and LeVeque do (1979).
template <class T, int pack>
void moments_as(const Context& context, const Tensor& x, Tensor& moments) {
  using C = Compute<T>;
  const RowSizes sizes(x);
  const std::int64_t rows = sizes.rows;
  const std::int64_t channels = sizes.channels;
  const ChannelTiling tiling = sum_tiling(sizes, pack, 2);
  const std::int64_t parts = tiling.parts;
  const T* const values = x.as<const T>();
  C* const result = moments.as<C>();
  PartMoments* const partial = parts > 1 ? context.scratch<PartMoments>(channels * parts) : nullptr;
  for_each_row<blocks_at_once>(context, tiling.units(), [=] __device__(std::int64_t unit) {
    const ChannelShare<pack> share(tiling, unit);
    const std::int64_t count = share.end - share.first_row;
    C about[pack] = {};
    if (share.has_channels) {
      constexpr int max_samples = 8;
      const int samples = static_cast<int>(std::min<std::int64_t>(count, max_samples));
      Pack<T, pack> of_sample[max_samples] = {};
      for (int sample = 0; sample < max_samples; ++sample)
        if (sample < samples)
          of_sample[sample] =
              load<pack>(values + (share.first_row + count * sample / samples) * channels + share.channel);
      for (int sample = 0; sample < max_samples; ++sample)
        for (int e = 0; e < pack && sample < samples; ++e)
          about[e] += static_cast<C>(of_sample[sample].at[e]) / static_cast<C>(samples);
    }
    double totals[2][pack];
    sum_part<C, 4>(
        tiling, share, totals, [&](std::int64_t at) { return load<pack>(values + at); },
        [&](std::int64_t, const Pack<T, pack>& in, C(&run)[2][pack]) {
          for (int e = 0; e < pack; ++e) {
            const C offset = static_cast<C>(in.at[e]) - about[e];
            run[0][e] += offset;
            run[1][e] += offset * offset;
          }
        });
    if (share.line != 0 || !share.has_channels) return;
    const double divisor = static_cast<double>(count > 0 ? count : 1);
    for (int e = 0; e < pack; ++e) {
      const double sum = totals[0][e];
      const double mean = static_cast<double>(about[e]) + sum / divisor;
      const double squares = totals[1][e] - sum * sum / divisor;
      const std::int64_t c = share.channel + e;
      if (partial != nullptr) {
        partial[c * parts + share.part] = {mean, squares};
      } else {
        result[c] = static_cast<C>(mean);
        result[channels + c] = static_cast<C>(squares < 0 ? 0.0 : squares);
      }
    }
  });
  if (partial == nullptr) return;
  for_each_row(context, channels, [=] __device__(std::int64_t c) {
    const PartMoments* const of_parts = partial + c * parts;
    const auto count_of = [&](std::int64_t part) {
      return static_cast<double>(rows * (part + 1) / parts - rows * part / parts);
    };
    const double mean = row_sum(0, parts, [&](std::int64_t part) { return count_of(part) * of_parts[part].mean; }) /
                        static_cast<double>(rows);
    const double squares = row_sum(0, parts, [&](std::int64_t part) {
      const double apart = of_parts[part].mean - mean;
      return of_parts[part].squares + count_of(part) * apart * apart;
    });
    if (threadIdx.x != 0) return;
    result[c] = static_cast<C>(mean);
    result[channels + c] = static_cast<C>(squares < 0 ? 0.0 : squares);
  });
}

/// One row's elements of a thread's channels.
template <class T, int pack>
struct ForwardInputs {
  Pack<T, pack> x;
  Pack<T, pack> residual;
};
template <class T, int pack>
struct BackwardInputs {
  Pack<T, pack> x;
  Pack<T, pack> dy;
  Pack<T, pack> y;
};

template <class T, int pack, NormActivation activation>
void normalize_as(const Context& context, const Tensor& x, const Affine<Compute<T>>& affine, const Tensor& residual,
                  Tensor& y) {
  using C = Compute<T>;
  const RowSizes sizes(x);
  const ChannelTiling tiling = map_tiling(sizes, pack);
  const T* const from = x.as<const T>();
  const T* const more = data_or_null<const T>(residual);
  T* const to = y.as<T>();
  for_each_row<blocks_at_once>(context, tiling.units(), [=] __device__(std::int64_t unit) {
    const ChannelShare<pack> share(tiling, unit);
    const AffineValues<C, pack> of(affine, share);
    const auto read = [&](std::int64_t at) {
      ForwardInputs<T, pack> in;
      in.x = load<pack>(from + at);
      if (more != nullptr) in.residual = load<pack>(more + at);
      return in;
    };
    for_each_ahead<4>(share.at, share.until, share.step, read, [&](std::int64_t at, const ForwardInputs<T, pack>& in) {
      Pack<T, pack> out;
      for (int e = 0; e < pack; ++e) {
        C value = (static_cast<C>(in.x.at[e]) - of.mean[e]) * of.factor[e] + of.offset[e];
        if (more != nullptr) value += static_cast<C>(in.residual.at[e]);
        out.at[e] = static_cast<T>(activated<activation>(value, of.slope[e]));
      }
      store(to + at, out);
    });
  });
}

/// With a residual the mask is the output's sign, else it is computed again from x.
template <class T, int pack, NormActivation activation, bool has_residual>
void backward_sums_as(const Context& context, const Tensor& x, const Affine<Compute<T>>& affine, const Tensor& y,
                      const Tensor& dy, Tensor& sums, Tensor& dresidual) {
  using C = Compute<T>;
  constexpr int count = activation == NormActivation::prelu ? 3 : 2;
  constexpr int batch = activation == NormActivation::none ? 4 : 2;  // as many as registers suffice for
  const RowSizes sizes(x);
  const std::int64_t channels = sizes.channels;
  const ChannelTiling tiling = sum_tiling(sizes, pack, count);
  const std::int64_t parts = tiling.parts;
  const T* const from = x.as<const T>();
  const T* const gradient = dy.as<const T>();
  const T* const output = data_or_null<const T>(y);
  T* const passed = data_or_null<T>(dresidual);
  C* const result = sums.as<C>();
  double* const partial = parts > 1 ? context.scratch<double>(count * channels * parts) : nullptr;
  const auto set = [=] __device__(std::int64_t at, double sum) {
    result[at] = static_cast<C>(sum);
    if (count == 2 && at < channels) result[2 * channels + at] = 0;  // there is no slope
  };
  for_each_row<blocks_at_once>(context, tiling.units(), [=] __device__(std::int64_t unit) {
    const ChannelShare<pack> share(tiling, unit);
    const AffineValues<C, pack> of(affine, share);
    double totals[count][pack];
    const auto read = [&](std::int64_t at) {
      BackwardInputs<T, pack> in;
      in.x = load<pack>(from + at);
      in.dy = load<pack>(gradient + at);
      if (has_residual) in.y = load<pack>(output + at);
      return in;
    };
    sum_part<C, batch>(
        tiling, share, totals, read, [&](std::int64_t at, const BackwardInputs<T, pack>& in, C(&run)[count][pack]) {
          Pack<T, pack> pass;
          for (int e = 0; e < pack; ++e) {
            const C from_mean = static_cast<C>(in.x.at[e]) - of.mean[e];
            const C pre = has_residual ? static_cast<C>(in.y.at[e]) : from_mean * of.factor[e] + of.offset[e];
            const C upstream = static_cast<C>(in.dy.at[e]);
            const C g = through<activation>(upstream, pre, of.slope[e]);
            run[0][e] += g;
            run[1][e] += g * from_mean;
            if constexpr (activation == NormActivation::prelu) run[2][e] += pre > C(0) ? C(0) : upstream * pre;
            pass.at[e] = static_cast<T>(g);
          }
          if (passed != nullptr) store(passed + at, pass);
        });
    if (share.line != 0 || !share.has_channels) return;
    // Without rows, the inverse deviation is not a number, and the sums are 0.
    for (int e = 0; e < pack && share.first_row < share.end; ++e)
      totals[1][e] *= static_cast<double>(affine.inverse[share.channel + e]);
    for (int e = 0; e < pack; ++e)
      for (int s = 0; s < count; ++s) {
        const std::int64_t at = s * channels + share.channel + e;
        if (partial != nullptr)
          partial[at * parts + share.part] = totals[s][e];
        else
          set(at, totals[s][e]);
      }
  });
  if (partial != nullptr)
    for_each_row(context, count * channels, [=] __device__(std::int64_t at) {
      const double sum = row_sum(0, parts, [&](std::int64_t part) { return partial[at * parts + part]; });
      if (threadIdx.x == 0) set(at, sum);
    });
}

template <class T, int pack, NormActivation activation>
void backward_input_as(const Context& context, const Tensor& x, const Affine<Compute<T>>& affine, const Tensor& dy,
                       const Tensor& sums, double count, Tensor& dx) {
  using C = Compute<T>;
  const RowSizes sizes(x);
  const std::int64_t channels = sizes.channels;
  const ChannelTiling tiling = map_tiling(sizes, pack);
  const T* const from = x.as<const T>();
  const T* const gradient = dy.as<const T>();
  const C* const totals = count > 0 ? sums.as<const C>() : nullptr;
  T* const to = dx.as<T>();
  for_each_row<blocks_at_once>(context, tiling.units(), [=] __device__(std::int64_t unit) {
    const ChannelShare<pack> share(tiling, unit);
    const AffineValues<C, pack> of(affine, share);
    // dx = factor * g - constant - (x - mean) * tilt
    C constant[pack] = {};
    C tilt[pack] = {};
    if (totals != nullptr && share.has_channels)
      for (int e = 0; e < pack; ++e) {
        const C part = of.factor[e] / static_cast<C>(count);
        constant[e] = part * totals[share.channel + e];
        tilt[e] = part * totals[channels + share.channel + e] * of.inverse[e];
      }
    const auto read = [&](std::int64_t at) {
      BackwardInputs<T, pack> in;
      in.x = load<pack>(from + at);
      in.dy = load<pack>(gradient + at);
      return in;
    };
    for_each_ahead<4>(share.at, share.until, share.step, read, [&](std::int64_t at, const BackwardInputs<T, pack>& in) {
      Pack<T, pack> out;
      for (int e = 0; e < pack; ++e) {
        const C from_mean = static_cast<C>(in.x.at[e]) - of.mean[e];
        const C pre = from_mean * of.factor[e] + of.offset[e];
        const C g = through<activation>(static_cast<C>(in.dy.at[e]), pre, of.slope[e]);
        out.at[e] = static_cast<T>(of.factor[e] * g - constant[e] - from_mean * tilt[e]);
      }
      store(to + at, out);
    });
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void NormalizationKernelsOn<cuda::Context>::moments(const Tensor& x, Tensor& moments) const {
  visit_floating(x.dtype(), "moments", [&]<class T>(T) {
    constexpr int pack = cuda::pack_of<T>;
    if (cuda::is_packable<pack>(x.shape().back(), x.as<T>()))
      cuda::moments_as<T, pack>(context_, x, moments);
    else
      cuda::moments_as<T, 1>(context_, x, moments);
  });
}

template <>
void NormalizationKernelsOn<cuda::Context>::normalize(const ChannelNorm& norm, const Tensor& residual,
                                                      Tensor& y) const {
  const Tensor& x = norm.x;
  visit_floating(x.dtype(), "normalize", [&]<class T>(T) {
    const cuda::Affine<Compute<T>> affine(norm);
    visit_activation(norm.activation, [&]<class Activation>(Activation) {
      constexpr int pack = cuda::pack_of<T>;
      if (cuda::is_packable<pack>(x.shape().back(), x.as<T>(), cuda::data_or_null<T>(residual), y.as<T>()))
        cuda::normalize_as<T, pack, Activation::value>(context_, x, affine, residual, y);
      else
        cuda::normalize_as<T, 1, Activation::value>(context_, x, affine, residual, y);
    });
  });
}

template <>
void NormalizationKernelsOn<cuda::Context>::normalize_backward_sums(const ChannelNorm& norm, const Tensor& y,
                                                                    const Tensor& dy, Tensor& sums,
                                                                    Tensor& dresidual) const {
  const Tensor& x = norm.x;
  visit_floating(x.dtype(), "normalize_backward_sums", [&]<class T>(T) {
    const cuda::Affine<Compute<T>> affine(norm);
    visit_activation(norm.activation, [&]<class Activation>(Activation) {
      constexpr int pack = cuda::pack_of<T>;
      const auto with = [&](auto of_pack, auto has_residual) {
        cuda::backward_sums_as<T, of_pack.value, Activation::value, has_residual.value>(context_, x, affine, y, dy,
                                                                                        sums, dresidual);
      };
      const bool is_packed = cuda::is_packable<pack>(x.shape().back(), x.as<T>(), cuda::data_or_null<T>(y), dy.as<T>(),
                                                     cuda::data_or_null<T>(dresidual));
      const auto with_pack = [&](auto of_pack) {
        y.defined() ? with(of_pack, std::true_type{}) : with(of_pack, std::false_type{});
      };
      is_packed ? with_pack(std::integral_constant<int, pack>{}) : with_pack(std::integral_constant<int, 1>{});
    });
  });
}

template <>
void NormalizationKernelsOn<cuda::Context>::normalize_backward_input(const ChannelNorm& norm, const Tensor& dy,
                                                                     const Tensor& sums, double count,
                                                                     Tensor& dx) const {
  const Tensor& x = norm.x;
  visit_floating(x.dtype(), "normalize_backward_input", [&]<class T>(T) {
    const cuda::Affine<Compute<T>> affine(norm);
    visit_activation(norm.activation, [&]<class Activation>(Activation) {
      constexpr int pack = cuda::pack_of<T>;
      if (cuda::is_packable<pack>(x.shape().back(), x.as<T>(), dy.as<T>(), dx.as<T>()))
        cuda::backward_input_as<T, pack, Activation::value>(context_, x, affine, dy, sums, count, dx);
      else
        cuda::backward_input_as<T, 1, Activation::value>(context_, x, affine, dy, sums, count, dx);
    });
  });
}

}  // namespace heddle
