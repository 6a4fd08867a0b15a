// The rows' own classes: their products, and what margins make of them before the logits.
#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/head/rows.cuh"
#include "framework/kernels/head.h"

namespace heddle::cuda {

namespace {

/// x . y, found by all threads of a block.
template <class T>
__device__ double dot(const T* x, const T* y, std::int64_t width) {
  return row_sum(0, width, [=](std::int64_t i) { return x[i] * y[i]; });
}

template <class T>
struct TargetProducts {
  const std::int64_t* labels;
  std::int64_t begin;
  std::int64_t size;
  const T* rows;
  const T* weights;
  const T* scale;
  std::int64_t width;
  std::int64_t centres;
  T* products;
  T* radii;
  std::int64_t* best;

  __device__ void operator()(std::int64_t row) const {
    const T* const x = rows + row * width;
    const std::int64_t label = labels[row] - begin;
    const bool is_here = label >= 0 && label < size;
    const std::int64_t first = row * centres;
    std::int64_t largest = first;
    T product = T(0);
    for (std::int64_t at = first; is_here && at < first + centres; ++at) {
      const T scaled = static_cast<T>(dot(x, weights + at * width, width) * (scale != nullptr ? scale[at] : T(1)));
      if (at > first && !(scaled > product || scaled != scaled)) continue;  // a NaN wins, so that it is seen
      largest = at;
      product = scaled;
    }
    double radius = 0;
    if (radii != nullptr && is_here) {
      const T* const w = weights + largest * width;
      radius = std::sqrt(dot(x, x, width) * dot(w, w, width));
    }
    if (threadIdx.x != 0) return;
    products[row] = product;
    if (best != nullptr) best[row] = largest;
    if (radii != nullptr) radii[row] = static_cast<T>(radius);
  }
};

template <class T>
void row_parameters_as(const Context& context, const MarginConfig& margin, const Tensor& running,
                       const Tensor& statistic, Tensor& parameter, Tensor& moments) {
  const auto* const state = data_or_null<const double>(running);
  const T* const from = statistic.as<const T>();
  T* const to = parameter.as<T>();
  double* const sums = moments.as<double>();
  const std::int64_t rows = statistic.numel();
  for_each_row(context, 1, [=] __device__(std::int64_t) {
    double sum = 0;
    double squares = 0;
    for_row(0, rows, [&](std::int64_t row) {
      to[row] = row_parameter(margin, state, from[row]);
      const auto observed = static_cast<double>(observed_value(margin, from[row]));
      sum += observed;
      squares += observed * observed;
    });
    sum = block_sum(sum);
    squares = block_sum(squares);
    if (threadIdx.x != 0) return;
    sums[0] += static_cast<double>(rows);
    sums[1] += sum;
    sums[2] += squares;
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void HeadKernelsOn<cuda::Context>::target_products(const HeadTargets& targets, const Tensor& rows, Tensor& products,
                                                   Tensor& radii, Tensor& best) const {
  visit_head(rows.dtype(), "target_products", [&]<class T>(T) {
    const std::int64_t count = rows.shape()[0];
    const cuda::TargetProducts<T> find{.labels = targets.labels.as<const std::int64_t>(),
                                       .begin = targets.range.begin,
                                       .size = targets.range.size,
                                       .rows = rows.as<const T>(),
                                       .weights = targets.rows.as<const T>(),
                                       .scale = cuda::data_or_null<const T>(targets.scale),
                                       .width = rows.shape()[1],
                                       .centres = count == 0 ? 1 : targets.rows.shape()[0] / count,
                                       .products = products.as<T>(),
                                       .radii = cuda::data_or_null<T>(radii),
                                       .best = cuda::data_or_null<std::int64_t>(best)};
    cuda::for_each_row(context_, count, find);
  });
}

template <>
void HeadKernelsOn<cuda::Context>::row_parameters(const MarginConfig& margin, const Tensor& running,
                                                  const Tensor& statistic, Tensor& parameter, Tensor& moments) const {
  visit_head(statistic.dtype(), "row_parameters",
             [&]<class T>(T) { cuda::row_parameters_as<T>(context_, margin, running, statistic, parameter, moments); });
}

template <>
void HeadKernelsOn<cuda::Context>::update_running(const MarginConfig& margin, const Tensor& moments,
                                                  Tensor& running) const {
  const auto* const observed = moments.as<const double>();
  auto* const state = running.as<double>();
  cuda::for_each(context_, 1, [=] __device__(std::int64_t) { heddle::update_running(margin, observed, state); });
}

template <>
void HeadKernelsOn<cuda::Context>::local_columns(const Tensor& labels, const IndexRange& range, Tensor& local) const {
  const std::int64_t centres = labels.numel() == 0 ? 1 : local.numel() / labels.numel();
  const std::int64_t begin = range.begin;
  const std::int64_t size = range.size;
  const auto* const from = labels.as<const std::int64_t>();
  auto* const to = local.as<std::int64_t>();
  cuda::for_each(context_, labels.numel() * centres, [=] __device__(std::int64_t i) {
    const std::int64_t column = from[i / centres] - begin;
    to[i] = (column >= 0 && column < size ? column : 0) * centres + i % centres;
  });
}

}  // namespace heddle
