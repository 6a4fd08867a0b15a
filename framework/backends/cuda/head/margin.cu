// Logits of all of a rank's classes. A block works on a row, or on a part of one.
#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/head/rows.cuh"
#include "framework/kernels/head.h"
#include "framework/scalars/scalar.h"

namespace heddle::cuda {

namespace {

template <class T>
void margin_logits_as(const Context& context, const StepMargin& margin, const HeadColumns& columns, Tensor& logits,
                      Tensor& target_logit, Tensor& target_slope, Tensor& row_max) {
  const HeadView<T> view(margin, columns);
  const auto scale = static_cast<T>(margin.config.scale);
  const std::int64_t width = logits.shape()[1];
  T* const values = logits.as<T>();
  T* const own_logit = target_logit.as<T>();
  T* const own_slope = target_slope.as<T>();
  T* const largest = row_max.as<T>();
  reduce_parts<T>(
      context, RowParts(logits), Largest{},
      [=] __device__(std::int64_t row, std::int64_t begin, std::int64_t end) {
        T* const z = values + row * width;
        const std::int64_t target = view.target(row);
        T own = T(0);
        if (target >= begin && target < end) {
          const TargetValue<T> value = view.target_value(row, z[target]);
          own = view.target_logit(row, value.phi);
          if (threadIdx.x == 0) {
            own_logit[row] = own;
            own_slope[row] = value.slope;
          }
          __syncthreads();  // all have read the product
        }
        const RowLogits<T> logit_of(view, row);
        T maximum = -std::numeric_limits<T>::infinity();
        transform_row(whole_block(), z, z, begin, end, [&](std::int64_t i, T product) {
          const T cosine = product * view.scale_at(i);
          const T kept = i == target ? own : view.maps ? cosine : cosine * scale + view.bias_at(i);
          maximum = Largest{}(maximum, logit_of.logit(i, kept));
          return kept;
        });
        return maximum;
      },
      [=] __device__(std::int64_t row, T maximum) { largest[row] = maximum; });
}

template <class T>
void exponential_sums_as(const Context& context, const StepMargin& margin, const HeadColumns& columns,
                         const Tensor& logits, const Tensor& row_max, Tensor& sums) {
  const HeadView<T> view(margin, columns);
  const std::int64_t width = logits.shape()[1];
  const T* const values = logits.as<const T>();
  const T* const maximum = row_max.as<const T>();
  auto* const to = sums.as<double>();
  reduce_parts<double>(
      context, RowParts(logits), Sum{},
      [=] __device__(std::int64_t row, std::int64_t begin, std::int64_t end) {
        const T* const z = values + row * width;
        const RowLogits<T> logit_of(view, row);
        const T base = maximum[row];
        double sum = 0;
        const auto add = [&](T logit) { sum += static_cast<double>(exponential(logit - base)); };
        // Elements are read together only where nothing is decided between them.
        if (view.maps)
          read_row(whole_block(), z, begin, end, [&](std::int64_t i, T value) { add(logit_of.logit(i, value)); });
        else
          read_row(whole_block(), z, begin, end, [&](std::int64_t, T value) { add(value); });
        return sum;
      },
      [=] __device__(std::int64_t row, double sum) { to[row] = sum; });
}

template <class T>
void margin_loss_as(const Context& context, const Tensor& row_max, const Tensor& sums, const Tensor& target_logit,
                    Tensor& log_sums, Tensor& loss) {
  const T* const maximum = row_max.as<const T>();
  const auto* const sum = sums.as<const double>();
  const T* const own = data_or_null<const T>(target_logit);
  T* const logarithm = log_sums.as<T>();
  T* const to = data_or_null<T>(loss);
  for_each(context, row_max.numel(), [=] __device__(std::int64_t row) {
    const double log_sum = static_cast<double>(maximum[row]) + std::log(sum[row]);
    logarithm[row] = static_cast<T>(log_sum);
    if (to != nullptr) to[row] = static_cast<T>(log_sum - static_cast<double>(own[row]));
  });
}

template <class T>
void margin_gradient_as(const Context& context, const StepMargin& margin, const HeadColumns& columns,
                        const Tensor& log_sums, const Tensor& target_slope, const LossFactors& factors,
                        Tensor& logits) {
  const HeadView<T> view(margin, columns);
  const RowFactors<T> scales(factors, margin.config.scale);
  const std::int64_t width = logits.shape()[1];
  const T* const logarithm = log_sums.as<const T>();
  const T* const slope = target_slope.as<const T>();
  T* const values = logits.as<T>();
  for_each_part(
      context, RowParts(logits), [=] __device__(std::int64_t, std::int64_t row, std::int64_t begin, std::int64_t end) {
        T* const z = values + row * width;
        const T log_sum = logarithm[row];
        const T scale = scales.at(row);
        const std::int64_t target = view.target(row);
        T own = T(0);
        if (target >= begin && target < end) {
          // expm1 keeps the digits of a probability near one.
          own = std::expm1(z[target] - log_sum) * scale * slope[row] * view.scale_at(target);
          __syncthreads();  // all have read the logit
        }
        const RowLogits<T> logit_of(view, row);
        transform_row(whole_block(), z, z, begin, end, [&](std::int64_t i, T value) {
          if (i == target) return own;
          return exponential(logit_of.logit(i, value) - log_sum) * logit_of.slope(value) * scale * view.scale_at(i);
        });
      });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void HeadKernelsOn<cuda::Context>::margin_logits(const StepMargin& margin, const HeadColumns& columns, Tensor& logits,
                                                 Tensor& target_logit, Tensor& target_slope, Tensor& row_max) const {
  visit_head(logits.dtype(), "margin_logits", [&]<class T>(T) {
    cuda::margin_logits_as<T>(context_, margin, columns, logits, target_logit, target_slope, row_max);
  });
}

template <>
void HeadKernelsOn<cuda::Context>::exponential_sums(const StepMargin& margin, const HeadColumns& columns,
                                                    const Tensor& logits, const Tensor& row_max, Tensor& sums) const {
  visit_head(logits.dtype(), "exponential_sums",
             [&]<class T>(T) { cuda::exponential_sums_as<T>(context_, margin, columns, logits, row_max, sums); });
}

template <>
void HeadKernelsOn<cuda::Context>::margin_loss(const Tensor& row_max, const Tensor& sums, const Tensor& target_logit,
                                               Tensor& log_sums, Tensor& loss) const {
  visit_head(row_max.dtype(), "margin_loss",
             [&]<class T>(T) { cuda::margin_loss_as<T>(context_, row_max, sums, target_logit, log_sums, loss); });
}

template <>
void HeadKernelsOn<cuda::Context>::margin_gradient(const StepMargin& margin, const HeadColumns& columns,
                                                   const Tensor& log_sums, const Tensor& target_slope,
                                                   const LossFactors& factors, Tensor& logits) const {
  visit_head(logits.dtype(), "margin_gradient", [&]<class T>(T) {
    cuda::margin_gradient_as<T>(context_, margin, columns, log_sums, target_slope, factors, logits);
  });
}

}  // namespace heddle
