// Margins whose target logit depends on lengths, too.
#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/head/rows.cuh"
#include "framework/kernels/head.h"

namespace heddle::cuda {

namespace {

template <class T>
void radial_share_as(const Context& context, const StepMargin& margin, const Tensor& products, const Tensor& log_sums,
                     const LossFactors& factors, Tensor& share) {
  const MarginConfig config = margin.config;
  const auto scale = static_cast<T>(config.scale);
  const RowFactors<T> times(factors, 1);
  const T* const product = products.as<const T>();
  const T* const radius = margin.parameter.as<const T>();
  const T* const log_sum = log_sums.as<const T>();
  T* const to = share.as<T>();
  for_each(context, products.numel(), [=] __device__(std::int64_t row) {
    const T logit = scale * margin_target(config, product[row], radius[row]).phi;
    to[row] = std::expm1(logit - log_sum[row]) * scale * times.at(row) *
              radial_slope(config, product[row], radius[row]) * radius[row];
  });
}

/// Rows that several samples share are the first one's, which adds all of their shares in order.
template <class T>
struct AddRadial {
  const T* shares;
  std::int64_t samples;
  const std::int64_t* index;
  std::int64_t begin;
  const T* rows;
  std::int64_t count;
  std::int64_t width;
  T* gradients;

  __device__ void operator()(std::int64_t first) const {
    const std::int64_t row = index != nullptr ? index[first] - begin : first;
    if (row < 0 || row >= count || has_earlier(first)) return;  // so do all threads of the block
    const T* const x = rows + row * width;
    T* const gradient = gradients + row * width;
    const double square = row_sum(0, width, [=](std::int64_t k) { return x[k] * x[k]; });
    if (square == 0) return;
    const std::int64_t end = index != nullptr ? samples : first + 1;
    for (std::int64_t i = first; i < end; ++i) {
      if (i > first && index[i] != index[first]) continue;
      const T part = static_cast<T>(static_cast<double>(shares[i]) / square);
      for_row(0, width, [=](std::int64_t k) { gradient[k] += part * x[k]; });
    }
  }

 private:
  __device__ bool has_earlier(std::int64_t sample) const {
    if (index == nullptr) return false;
    int found = 0;
    for_row(0, sample, [&](std::int64_t i) {
      if (index[i] == index[sample]) found = 1;
    });
    return block_sum(found) > 0;
  }
};

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void HeadKernelsOn<cuda::Context>::radial_share(const StepMargin& margin, const Tensor& products,
                                                const Tensor& log_sums, const LossFactors& factors,
                                                Tensor& share) const {
  visit_head(products.dtype(), "radial_share",
             [&]<class T>(T) { cuda::radial_share_as<T>(context_, margin, products, log_sums, factors, share); });
}

template <>
void HeadKernelsOn<cuda::Context>::add_radial(const Tensor& share, const Tensor& index, std::int64_t begin,
                                              const Tensor& rows, Tensor& gradient) const {
  visit_head(rows.dtype(), "add_radial", [&]<class T>(T) {
    const cuda::AddRadial<T> add{.shares = share.as<const T>(),
                                 .samples = share.numel(),
                                 .index = cuda::data_or_null<const std::int64_t>(index),
                                 .begin = begin,
                                 .rows = rows.as<const T>(),
                                 .count = rows.shape()[0],
                                 .width = rows.shape()[1],
                                 .gradients = gradient.as<T>()};
    cuda::for_each_row(context_, share.numel(), add);
  });
}

}  // namespace heddle
