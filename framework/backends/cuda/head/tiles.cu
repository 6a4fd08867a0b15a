// Logits that are computed tile by tile and forgotten.
#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/head/rows.cuh"
#include "framework/kernels/head.h"
#include "framework/scalars/scalar.h"

namespace heddle::cuda {

namespace {

template <class T>
void raise_reference_as(const Context& context, const Tensor& row_max, Tensor& reference, Tensor& sums,
                        Tensor& factor) {
  const T* const maximum = row_max.as<const T>();
  T* const now = reference.as<T>();
  auto* const sum = sums.as<double>();
  T* const worth = factor.as<T>();
  for_each(context, row_max.numel(), [=] __device__(std::int64_t row) {
    const T before = now[row];
    const T after = Largest{}(before, maximum[row]);
    worth[row] = before == after ? T(1) : std::exp(before - after);
    now[row] = after;
    sum[row] *= static_cast<double>(worth[row]);
  });
}

template <class T>
void accumulate_exponentials_as(const Context& context, const StepMargin& margin, const HeadColumns& columns,
                                const Tensor& reference, Tensor& logits, Tensor& sums) {
  const HeadView<T> view(margin, columns);
  const std::int64_t width = logits.shape()[1];
  const T* const references = reference.as<const T>();
  T* const values = logits.as<T>();
  auto* const to = sums.as<double>();
  reduce_parts<double>(
      context, RowParts(logits), Sum{},
      [=] __device__(std::int64_t row, std::int64_t begin, std::int64_t end) {
        T* const z = values + row * width;
        const T base = references[row];
        const RowLogits<T> logit_of(view, row);
        double sum = 0;
        transform_row(whole_block(), z, z, begin, end, [&](std::int64_t i, T value) {
          const T term = exponential(logit_of.logit(i, value) - base);
          sum += static_cast<double>(term);
          return i == logit_of.target ? T(0) : term * logit_of.slope(value) * view.scale_at(i);
        });
        return sum;
      },
      [=] __device__(std::int64_t row, double sum) { to[row] += sum; });
}

template <class T>
void fused_gradient_as(const Context& context, RowFactors<T> scales, const HeadTargets& targets,
                       const HeadSoftmax& known, Tensor& weighted) {
  const std::int64_t begin = targets.range.begin;
  const std::int64_t size = targets.range.size;
  const std::int64_t width = weighted.shape()[1];
  const auto* const label = targets.labels.as<const std::int64_t>();
  const T* const references = known.reference.as<const T>();
  const T* const logarithm = known.log_sums.as<const T>();
  const T* const logit = known.target_logit.as<const T>();
  const T* const slope = known.target_slope.as<const T>();
  const T* const weights = data_or_null<const T>(targets.rows);  // an empty range has none
  const T* const factor = data_or_null<const T>(targets.scale);
  T* const gradients = weighted.as<T>();
  for_each_row(context, weighted.shape()[0], [=] __device__(std::int64_t row) {
    T* const gradient = gradients + row * width;
    const T* const weight = weights + row * width;
    const T scale = scales.at(row);
    const T share = scale * std::exp(references[row] - logarithm[row]);
    const std::int64_t target = label[row] - begin;
    const bool is_here = target >= 0 && target < size;
    T own = is_here ? scale * std::expm1(logit[row] - logarithm[row]) * slope[row] : T(0);
    if (is_here && factor != nullptr) own *= factor[row];
    transform_row(whole_block(), gradient, gradient, 0, width, [&](std::int64_t i, T value) {
      const T others = value * share;
      return is_here ? others + own * weight[i] : others;
    });
  });
}

template <class T>
void stashed_gradient_as(const Context& context, RowFactors<T> scales, const HeadColumns& columns,
                         const HeadSoftmax& known, const Tensor& exponentials, Tensor& gradient) {
  const std::int64_t width = gradient.shape()[1];
  const auto* const labels = columns.labels.as<const std::int64_t>();
  const std::int64_t first = columns.begin;
  const T* const factor = data_or_null<const T>(columns.scale);
  const T* const references = known.reference.as<const T>();
  const T* const logarithm = known.log_sums.as<const T>();
  const T* const logit = known.target_logit.as<const T>();
  const T* const slope = known.target_slope.as<const T>();
  const T* const from = exponentials.as<const T>();
  T* const to = gradient.as<T>();
  for_each_part(context, RowParts(gradient),
                [=] __device__(std::int64_t, std::int64_t row, std::int64_t begin, std::int64_t end) {
                  const T scale = scales.at(row);
                  const T share = scale * std::exp(references[row] - logarithm[row]);
                  const std::int64_t target = labels[row] - first;
                  const bool is_here = target >= begin && target < end;
                  const T own = is_here ? scale * std::expm1(logit[row] - logarithm[row]) * slope[row] : T(0);
                  transform_row(whole_block(), from + row * width, to + row * width, begin, end,
                                [&](std::int64_t i, T value) {
                                  if (i == target) return own;
                                  return factor != nullptr ? value * share / factor[i] : value * share;
                                });
                });
}

/// The elements [t, B] that are not of a sample's own class.
template <class T>
struct GradientOfOthers {
  HeadView<T> view;
  const T* log_sums;
  RowFactors<T> scales;
  std::int64_t samples;
  T* products;

  __device__ void operator()(std::int64_t column, RowGroup group) const {
    if (column < 0) return;
    T* const z = products + column * samples;
    const T by_product = view.scale_at(column) * static_cast<T>(view.margin.scale);
    const T bias = view.bias_at(column);
    transform_row(group, z, z, 0, samples, [&](std::int64_t i, T product) {
      if (view.target(i) == column) return product;
      return exponential(product * by_product + bias - log_sums[i]) * scales.at(i);
    });
  }
};

template <class T>
void gradient_by_class_as(const Context& context, const StepMargin& margin, const HeadColumns& columns,
                          const Tensor& log_sums, const LossFactors& factors, Tensor& products) {
  const std::int64_t classes = products.shape()[0];
  const std::int64_t samples = products.shape()[1];
  const HeadView<T> view(margin, columns);
  const T* const logarithm = log_sums.as<const T>();
  const RowFactors<T> scales(factors, margin.config.scale);
  T* const values = products.as<T>();
  constexpr std::uint64_t warp = 32;
  const auto threads = std::clamp<std::uint64_t>(std::bit_ceil(static_cast<std::uint64_t>(samples) * sizeof(T) / 16),
                                                 warp, block_threads);
  for_each_row_group(context, classes, static_cast<int>(threads),
                     GradientOfOthers<T>{view, logarithm, scales, samples, values});
  for_each(context, samples, [=] __device__(std::int64_t i) {
    const std::int64_t target = view.target(i);
    if (target < 0 || target >= classes) return;
    T& place = values[target * samples + i];
    const TargetValue<T> own = view.target_value(i, place);
    // expm1 keeps the digits of a probability near one.
    place = std::expm1(view.target_logit(i, own.phi) - logarithm[i]) * scales.at(i) * own.slope;
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void HeadKernelsOn<cuda::Context>::raise_reference(const Tensor& row_max, Tensor& reference, Tensor& sums,
                                                   Tensor& factor) const {
  visit_head(row_max.dtype(), "raise_reference",
             [&]<class T>(T) { cuda::raise_reference_as<T>(context_, row_max, reference, sums, factor); });
}

template <>
void HeadKernelsOn<cuda::Context>::accumulate_exponentials(const StepMargin& margin, const HeadColumns& columns,
                                                           const Tensor& reference, Tensor& logits,
                                                           Tensor& sums) const {
  visit_head(logits.dtype(), "accumulate_exponentials", [&]<class T>(T) {
    cuda::accumulate_exponentials_as<T>(context_, margin, columns, reference, logits, sums);
  });
}

template <>
void HeadKernelsOn<cuda::Context>::fused_gradient(const MarginConfig& margin, const LossFactors& factors,
                                                  const HeadTargets& targets, const HeadSoftmax& known,
                                                  Tensor& weighted) const {
  visit_head(weighted.dtype(), "fused_gradient", [&]<class T>(T) {
    cuda::fused_gradient_as(context_, cuda::RowFactors<T>(factors, margin.scale), targets, known, weighted);
  });
}

template <>
void HeadKernelsOn<cuda::Context>::stashed_gradient(const MarginConfig& margin, const HeadColumns& columns,
                                                    const LossFactors& factors, const HeadSoftmax& known,
                                                    const Tensor& exponentials, Tensor& gradient) const {
  visit_head(gradient.dtype(), "stashed_gradient", [&]<class T>(T) {
    cuda::stashed_gradient_as(context_, cuda::RowFactors<T>(factors, margin.scale), columns, known, exponentials,
                              gradient);
  });
}

template <>
void HeadKernelsOn<cuda::Context>::gradient_by_class(const StepMargin& margin, const HeadColumns& columns,
                                                     const Tensor& log_sums, const LossFactors& factors,
                                                     Tensor& products) const {
  visit_head(products.dtype(), "gradient_by_class", [&]<class T>(T) {
    cuda::gradient_by_class_as<T>(context_, margin, columns, log_sums, factors, products);
  });
}

}  // namespace heddle
