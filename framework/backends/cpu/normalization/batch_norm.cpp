// Normalisation over channels. These kernels move memory: each reads and writes every element once, with what follows
// the norm folded in. Sums run over fixed blocks of rows, in f32 within 64 rows and in f64 beyond, so that neither the
// number of threads nor the number of rows changes or blurs them.
#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/assign.h"
#include "framework/backends/cpu/loops/parallel.h"
#include "framework/backends/dispatch.h"
#include "framework/kernels/normalization.h"

namespace heddle::cpu {

namespace {

constexpr std::int64_t run_rows = 64;    // rows that are summed in the compute type
constexpr std::int64_t max_blocks = 64;  // blocks of rows, whatever the number of threads

struct Rows {
  explicit Rows(const Tensor& x) : channels(x.shape().back()), count(channels == 0 ? 0 : x.numel() / channels) {
    const std::int64_t runs = (count + run_rows - 1) / run_rows;
    block = std::max<std::int64_t>(1, (runs + max_blocks - 1) / max_blocks) * run_rows;
    blocks = (count + block - 1) / block;
  }
  std::int64_t channels;
  std::int64_t count;
  std::int64_t block;  // rows in a block
  std::int64_t blocks;
  std::int64_t grain_rows() const {
    return std::max<std::int64_t>(1, default_grain / std::max<std::int64_t>(1, channels));
  }
};

/// Adds up `sums` values per channel over all rows: add(row, accumulators) takes one row's values in, accumulators
/// being `sums` arrays of `channels`. Result [sums * channels] in f64.
template <class C, class AddRow>
std::vector<double> sum_rows(const Rows& rows, std::int64_t sums, const AddRow& add) {
  const std::int64_t width = sums * rows.channels;
  std::vector<double> partial(static_cast<std::size_t>(std::max<std::int64_t>(1, rows.blocks) * width));
  parallel_for(rows.blocks, std::max<std::int64_t>(1, rows.grain_rows() / rows.block),
               [&](std::int64_t first, std::int64_t last) {
                 std::vector<C> run(static_cast<std::size_t>(width));
                 for (std::int64_t block = first; block < last; ++block) {
                   double* const total = partial.data() + block * width;
                   const std::int64_t end = std::min(rows.count, (block + 1) * rows.block);
                   for (std::int64_t row = block * rows.block; row < end;) {
                     std::fill(run.begin(), run.end(), C{0});
                     for (const std::int64_t stop = std::min(end, row + run_rows); row < stop; ++row)
                       add(row, run.data());
                     for (std::int64_t i = 0; i < width; ++i)
                       total[i] += static_cast<double>(run[static_cast<std::size_t>(i)]);
                   }
                 }
               });
  for (std::int64_t block = 1; block < rows.blocks; ++block)
    for (std::int64_t i = 0; i < width; ++i)
      partial[static_cast<std::size_t>(i)] += partial[static_cast<std::size_t>(block * width + i)];
  partial.resize(static_cast<std::size_t>(width));
  return partial;
}

/// The values of a [C] tensor, or `missing` in its place.
template <class C>
std::vector<C> channel_values(const Tensor& tensor, std::int64_t channels, C missing) {
  if (!tensor.defined()) return std::vector<C>(static_cast<std::size_t>(channels), missing);
  const C* const values = tensor.as<C>();
  return {values, values + channels};
}

/// The affine map of each channel: pre = (x - mean) * factor + offset.
template <class C>
struct Affine {
  Affine(const Rows& rows, const ChannelNorm& norm)
      : mean(norm.mean.as<C>()),
        inverse(norm.inverse_deviation.as<C>()),
        factor(channel_values<C>(norm.gamma, rows.channels, 1)),
        offset(channel_values<C>(norm.beta, rows.channels, 0)),
        slope(norm.slope.defined() ? norm.slope.as<C>() : nullptr) {
    for (std::size_t c = 0; c < factor.size(); ++c) factor[c] *= inverse[c];
  }
  const C* mean;
  const C* inverse;
  std::vector<C> factor;
  std::vector<C> offset;
  const C* slope;
};

/// dy times the activation's derivative at `pre`.
template <NormActivation activation, class C>
C through(C dy, C pre, C slope) {
  if constexpr (activation == NormActivation::none) return dy;
  if constexpr (activation == NormActivation::relu) return pre > 0 ? dy : C{0};
  return pre > 0 ? dy : slope * dy;
}

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
void NormalizationKernelsOn<cpu::Context>::moments(const Tensor& x, Tensor& moments) const {
  const cpu::ThreadTeam team(context_.threads());
  const cpu::Rows rows(x);
  const std::int64_t channels = rows.channels;
  visit_floating(x.dtype(), "moments", [&]<class T>(T) {
    using C = Compute<T>;
    const T* const values = x.as<T>();
    // Squares are summed about a value near the mean, that of some rows spread over all: nothing cancels then.
    std::vector<C> center(static_cast<std::size_t>(channels));
    const std::int64_t samples = std::min<std::int64_t>(rows.count, 64);
    for (std::int64_t sample = 0; sample < samples; ++sample)
      for (std::int64_t c = 0; c < channels; ++c)
        center[static_cast<std::size_t>(c)] +=
            static_cast<C>(values[rows.count * sample / samples * channels + c]) / static_cast<C>(samples);
    const C* const about = center.data();
    const std::vector<double> sums = cpu::sum_rows<C>(rows, 2, [=](std::int64_t row, C* run) {
      const T* const at = values + row * channels;
      C* const squares = run + channels;
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) {
        const C offset = static_cast<C>(at[c]) - about[c];
        run[c] += offset;
        squares[c] += offset * offset;
      }
    });
    C* const result = moments.as<C>();
    const double count = static_cast<double>(std::max<std::int64_t>(1, rows.count));
    for (std::int64_t c = 0; c < channels; ++c) {
      const double sum = sums[static_cast<std::size_t>(c)];
      const double squares = sums[static_cast<std::size_t>(channels + c)];
      result[c] = static_cast<C>(static_cast<double>(about[c]) + sum / count);
      result[channels + c] = static_cast<C>(std::max(0.0, squares - sum * sum / count));
    }
  });
}

template <>
void NormalizationKernelsOn<cpu::Context>::normalize(const ChannelNorm& norm, const Tensor& residual, Tensor& y) const {
  const Tensor& x = norm.x;
  const cpu::ThreadTeam team(context_.threads());
  const cpu::Rows rows(x);
  const std::int64_t channels = rows.channels;
  visit_floating(x.dtype(), "normalize", [&]<class T>(T) {
    using C = Compute<T>;
    const cpu::Affine<C> affine(rows, norm);
    const auto run = [&]<class Activation, class HasResidual>(Activation, HasResidual) {
      cpu::parallel_for(rows.count, rows.grain_rows(), [&](std::int64_t begin, std::int64_t end) {
        const C* const center = affine.mean;
        const C* const factor = affine.factor.data();
        const C* const offset = affine.offset.data();
        const C* const slopes = affine.slope;
        for (std::int64_t row = begin; row < end; ++row) {
          const T* const from = x.as<T>() + row * channels;
          const T* const more = HasResidual::value ? residual.as<T>() + row * channels : nullptr;
          T* const to = y.as<T>() + row * channels;
#pragma omp simd
          for (std::int64_t c = 0; c < channels; ++c) {
            C value = (static_cast<C>(from[c]) - center[c]) * factor[c] + offset[c];
            if constexpr (HasResidual::value) value += static_cast<C>(more[c]);
            if constexpr (Activation::value == NormActivation::relu)
              value = value < 0 ? C{0} : value;  // a NaN stays one
            if constexpr (Activation::value == NormActivation::prelu) value = value > 0 ? value : slopes[c] * value;
            cpu::assign(to[c], value);
          }
        }
      });
    };
    visit_activation(norm.activation, [&](auto kind) {
      residual.defined() ? run(kind, std::true_type()) : run(kind, std::false_type());
    });
  });
}

template <>
void NormalizationKernelsOn<cpu::Context>::normalize_backward_sums(const ChannelNorm& norm, const Tensor& y,
                                                                   const Tensor& dy, Tensor& sums,
                                                                   Tensor& dresidual) const {
  const Tensor& x = norm.x;
  const cpu::ThreadTeam team(context_.threads());
  const cpu::Rows rows(x);
  const std::int64_t channels = rows.channels;
  visit_floating(x.dtype(), "normalize_backward_sums", [&]<class T>(T) {
    using C = Compute<T>;
    const cpu::Affine<C> affine(rows, norm);
    const C* const center = affine.mean;
    const C* const inverse = affine.inverse;
    const C* const factor = affine.factor.data();
    const C* const offset = affine.offset.data();
    const C* const slopes = affine.slope;
    const T* const inputs = x.as<T>();
    const T* const gradients = dy.as<T>();
    // With a residual the mask is the output's sign, else it is computed again from x.
    const T* const outputs = y.defined() ? y.as<T>() : nullptr;
    T* const passed = dresidual.defined() ? dresidual.as<T>() : nullptr;
    const auto run = [&]<class Activation, class FromOutput, class Passes>(Activation, FromOutput, Passes) {
      return cpu::sum_rows<C>(rows, 3, [=](std::int64_t row, C* total) {
        const T* const from = inputs + row * channels;
        const T* const gradient = gradients + row * channels;
        const T* const output = FromOutput::value ? outputs + row * channels : nullptr;
        T* const pass = Passes::value ? passed + row * channels : nullptr;
        C* const products = total + channels;
        C* const slope_sums = products + channels;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
          const C from_mean = static_cast<C>(from[c]) - center[c];
          const C upstream = static_cast<C>(gradient[c]);
          C pre = 0;
          if constexpr (FromOutput::value) {
            pre = static_cast<C>(output[c]);
          } else if constexpr (Activation::value != NormActivation::none) {
            pre = from_mean * factor[c] + offset[c];
          }
          C slope_here = 0;
          if constexpr (Activation::value == NormActivation::prelu) slope_here = slopes[c];
          const C g = cpu::through<Activation::value>(upstream, pre, slope_here);
          total[c] += g;
          products[c] += g * (from_mean * inverse[c]);
          if constexpr (Activation::value == NormActivation::prelu) slope_sums[c] += pre > 0 ? C{0} : upstream * pre;
          if constexpr (Passes::value) pass[c] = static_cast<T>(g);
        }
      });
    };
    const auto choose = [&](auto kind) {
      if (outputs == nullptr)
        return passed == nullptr ? run(kind, std::false_type(), std::false_type())
                                 : run(kind, std::false_type(), std::true_type());
      return passed == nullptr ? run(kind, std::true_type(), std::false_type())
                               : run(kind, std::true_type(), std::true_type());
    };
    visit_activation(norm.activation, [&](auto kind) {
      const std::vector<double> total = choose(kind);
      std::transform(total.begin(), total.end(), sums.as<C>(), [](double value) { return static_cast<C>(value); });
    });
  });
}

template <>
void NormalizationKernelsOn<cpu::Context>::normalize_backward_input(const ChannelNorm& norm, const Tensor& dy,
                                                                    const Tensor& sums, double count,
                                                                    Tensor& dx) const {
  const Tensor& x = norm.x;
  const cpu::ThreadTeam team(context_.threads());
  const cpu::Rows rows(x);
  const std::int64_t channels = rows.channels;
  visit_floating(x.dtype(), "normalize_backward_input", [&]<class T>(T) {
    using C = Compute<T>;
    const cpu::Affine<C> affine(rows, norm);
    // dx = factor * g - constant - (x - mean) * tilt
    std::vector<C> constant(static_cast<std::size_t>(channels));
    std::vector<C> tilt(static_cast<std::size_t>(channels));
    if (count > 0)
      for (std::size_t c = 0; c < constant.size(); ++c) {
        const C* const totals = sums.as<C>();
        const C share = affine.factor[c] / static_cast<C>(count);
        constant[c] = share * totals[c];
        tilt[c] = share * totals[static_cast<std::size_t>(channels) + c] * affine.inverse[c];
      }
    const auto run = [&]<class Activation>(Activation) {
      cpu::parallel_for(rows.count, rows.grain_rows(), [&](std::int64_t begin, std::int64_t end) {
        const C* const center = affine.mean;
        const C* const factor = affine.factor.data();
        const C* const offset = affine.offset.data();
        const C* const slopes = affine.slope;
        const C* const less = constant.data();
        const C* const tilts = tilt.data();
        for (std::int64_t row = begin; row < end; ++row) {
          const T* const from = x.as<T>() + row * channels;
          const T* const gradient = dy.as<T>() + row * channels;
          T* const to = dx.as<T>() + row * channels;
#pragma omp simd
          for (std::int64_t c = 0; c < channels; ++c) {
            const C from_mean = static_cast<C>(from[c]) - center[c];
            const C pre = Activation::value == NormActivation::none ? C{0} : from_mean * factor[c] + offset[c];
            C slope_here = 0;
            if constexpr (Activation::value == NormActivation::prelu) slope_here = slopes[c];
            const C g = cpu::through<Activation::value>(static_cast<C>(gradient[c]), pre, slope_here);
            to[c] = static_cast<T>(factor[c] * g - less[c] - from_mean * tilts[c]);
          }
        }
      });
    };
    visit_activation(norm.activation, run);
  });
}

}  // namespace heddle
