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

/// Margin, exponential and sum of a part of a row in one pass over its products.
template <class T, class Out>
struct ProductExponentials {
  HeadView<T> view;
  const T* references;
  const T* products;
  T* target_logit;
  T* target_slope;
  Out* to;
  std::int64_t width;

  __device__ double operator()(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    const T* const product = products + row * width;
    Out* const term = to + row * width;
    const T base = references[row];
    const auto scale = static_cast<T>(view.margin.scale);
    const std::int64_t target = view.target(row);
    double sum = 0;
    if (target >= begin && target < end) {
      if (threadIdx.x == 0) {
        const TargetValue<T> value = view.target_value(row, product[target]);
        const T own = view.target_logit(row, value.phi);
        target_logit[row] = own;
        target_slope[row] = value.slope;
        sum = static_cast<double>(exponential(own - base));
      }
      __syncthreads();  // the product has been read
    }
    const auto term_of = [&](std::int64_t i, T product_of_i, T factor) {
      if (i == target) return T(0);
      const T value = exponential(product_of_i * factor * scale + view.bias_at(i) - base);
      sum += static_cast<double>(value);
      return value * factor;
    };
    constexpr int pack = 16 / sizeof(T);
    const std::int64_t first = begin + before_pack(product + begin);
    const bool are_packed = is_pack<pack>(term + first) && (view.scale == nullptr || is_pack<pack>(view.scale + first));
    struct Read {
      Pack<T, pack> product;
      Pack<T, pack> factor;
    };
    for_packs<pack>(
        whole_block(), begin, end, are_packed ? first : end,
        [&](std::int64_t i) {
          Read x;
          x.product = load<pack>(product + i);
          for (T& one : x.factor.at) one = T(1);
          if (view.scale != nullptr) x.factor = load<pack>(view.scale + i);
          return x;
        },
        [&](std::int64_t i, const Read x) {
          Pack<Out, pack> terms;
          for (int e = 0; e < pack; ++e)
            terms.at[e] = convert_element<Out>(term_of(i + e, x.product.at[e], x.factor.at[e]));
          store(term + i, terms);
        },
        [&](std::int64_t i) { term[i] = convert_element<Out>(term_of(i, product[i], view.scale_at(i))); });
    return sum;
  }
};

template <class T, class Out>
void product_exponentials_as(const Context& context, const StepMargin& margin, const HeadColumns& columns,
                             const Tensor& reference, const Tensor& products, Tensor& target_logit,
                             Tensor& target_slope, Tensor& exponentials, Tensor& sums) {
  const ProductExponentials<T, Out> part{.view = HeadView<T>(margin, columns),
                                         .references = reference.as<const T>(),
                                         .products = products.as<const T>(),
                                         .target_logit = target_logit.as<T>(),
                                         .target_slope = target_slope.as<T>(),
                                         .to = exponentials.as<Out>(),
                                         .width = products.shape()[1]};
  auto* const total = sums.as<double>();
  reduce_parts<double>(context, RowParts(products), Sum{}, part,
                       [=] __device__(std::int64_t row, double sum) { total[row] += sum; });
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

template <class T, class Out>
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
  const Out* const from = exponentials.as<const Out>();
  Out* const to = gradient.as<Out>();
  for_each_part(context, RowParts(gradient),
                [=] __device__(std::int64_t, std::int64_t row, std::int64_t begin, std::int64_t end) {
                  const T scale = scales.at(row);
                  const T share = scale * std::exp(references[row] - logarithm[row]);
                  const std::int64_t target = labels[row] - first;
                  const bool is_here = target >= begin && target < end;
                  const T own = is_here ? scale * std::expm1(logit[row] - logarithm[row]) * slope[row] : T(0);
                  transform_row(whole_block(), from + row * width, to + row * width, begin, end,
                                [&](std::int64_t i, Out kept) {
                                  const T value = static_cast<T>(kept) * share;
                                  if (i == target) return static_cast<Out>(own);
                                  return static_cast<Out>(factor != nullptr ? value / factor[i] : value);
                                });
                });
}

/// Products [t, B] of classes and samples. A thread has the same few samples for all of its classes, so that it reads
/// what belongs to samples once.
template <class T, class Out>
struct GradientByClass {
  HeadView<T> view;
  const T* log_sums;
  RowFactors<T> scales;
  std::int64_t classes;
  std::int64_t samples;
  const T* products;
  Out* to;

  /// For `pack` samples from `first` on and every `stride`-th class from `column` on. A sample's own class keeps its
  /// product.
  template <int pack>
  __device__ void others(std::int64_t first, std::int64_t column, std::int64_t stride) const {
    std::int64_t target[pack];
    T log_sum[pack];
    T scale[pack];
    for (int e = 0; e < pack; ++e) {
      target[e] = view.target(first + e);
      log_sum[e] = log_sums[first + e];
      scale[e] = scales.at(first + e);
    }
    const auto by_logit = static_cast<T>(view.margin.scale);
    for_each_ahead<4>(
        column, classes, stride, [&](std::int64_t i) { return load<pack>(products + i * samples + first); },
        [&](std::int64_t i, const Pack<T, pack> product) {
          const T by_product = view.scale_at(i) * by_logit;
          const T bias = view.bias_at(i);
          Pack<Out, pack> gradient;
          for (int e = 0; e < pack; ++e) {
            const T other = exponential(product.at[e] * by_product + bias - log_sum[e]) * scale[e];
            gradient.at[e] = convert_element<Out>(target[e] == i ? product.at[e] : other);
          }
          store(to + i * samples + first, gradient);
        });
  }

  __device__ void own(std::int64_t sample) const {
    const std::int64_t target = view.target(sample);
    if (target < 0 || target >= classes) return;
    const std::int64_t place = target * samples + sample;
    const TargetValue<T> value = view.target_value(sample, products[place]);
    // expm1 keeps the digits of a probability near one.
    to[place] = convert_element<Out>(std::expm1(view.target_logit(sample, value.phi) - log_sums[sample]) *
                                     scales.at(sample) * value.slope);
  }
};

/// Blocks of `across` threads for neighbouring packs of samples, as often as a block has room for them; `strips` of
/// them next to each other have all samples.
template <int pack, class Gradient>
__global__ void gradient_by_class_kernel(Gradient gradient, int across, std::int64_t strips) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int down = block_threads / across;
  const std::int64_t first = (blockIdx.x % strips * across + thread % across) * pack;
  if (first < gradient.samples)
    gradient.template others<pack>(first, blockIdx.x / strips * down + thread / across, gridDim.x / strips * down);
}

template <int pack, class Gradient>
void launch_by_class(const Context& context, const Gradient& gradient) {
  const std::int64_t packs = (gradient.samples + pack - 1) / pack;
  const auto across = static_cast<int>(
      std::min<std::uint64_t>(std::bit_ceil(static_cast<std::uint64_t>(packs)), std::uint64_t{block_threads}));
  const std::int64_t down = block_threads / across;
  const std::int64_t strips = (packs + across - 1) / across;
  if (strips > max_blocks) fail("gradient_by_class: {} samples are too many", gradient.samples);
  const std::int64_t most = max_blocks / strips;
  const std::int64_t rows = std::min((gradient.classes + down - 1) / down, most);
  launch(context, rows * strips, gradient_by_class_kernel<pack, Gradient>, gradient, across, strips);
}

template <class T, class Out>
void gradient_by_class_as(const Context& context, const StepMargin& margin, const HeadColumns& columns,
                          const Tensor& log_sums, const LossFactors& factors, const Tensor& products,
                          Tensor& gradient) {
  const GradientByClass<T, Out> by_class{.view = HeadView<T>(margin, columns),
                                         .log_sums = log_sums.as<const T>(),
                                         .scales = RowFactors<T>(factors, margin.config.scale),
                                         .classes = products.shape()[0],
                                         .samples = products.shape()[1],
                                         .products = products.as<const T>(),
                                         .to = gradient.as<Out>()};
  if (products.numel() == 0) return;
  constexpr int pack = 16 / sizeof(T);
  if (by_class.samples % pack == 0 && is_pack<pack>(by_class.products) && is_pack<pack>(by_class.to))
    launch_by_class<pack>(context, by_class);
  else
    launch_by_class<1>(context, by_class);
  for_each(context, by_class.samples, [=] __device__(std::int64_t sample) { by_class.own(sample); });
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
  visit_head_result(known.log_sums.dtype(), gradient.dtype(), "stashed_gradient", [&]<class T, class Out>(T, Out) {
    cuda::stashed_gradient_as<T, Out>(context_, cuda::RowFactors<T>(factors, margin.scale), columns, known,
                                      exponentials, gradient);
  });
}

template <>
void HeadKernelsOn<cuda::Context>::product_exponentials(const StepMargin& margin, const HeadColumns& columns,
                                                        const Tensor& reference, Tensor& products, Tensor& target_logit,
                                                        Tensor& target_slope, Tensor& exponentials,
                                                        Tensor& sums) const {
  visit_head_result(products.dtype(), exponentials.dtype(), "product_exponentials", [&]<class T, class Out>(T, Out) {
    cuda::product_exponentials_as<T, Out>(context_, margin, columns, reference, products, target_logit, target_slope,
                                          exponentials, sums);
  });
}

template <>
void HeadKernelsOn<cuda::Context>::gradient_by_class(const StepMargin& margin, const HeadColumns& columns,
                                                     const Tensor& log_sums, const LossFactors& factors,
                                                     Tensor& products, Tensor& gradient) const {
  visit_head_result(products.dtype(), gradient.dtype(), "gradient_by_class", [&]<class T, class Out>(T, Out) {
    cuda::gradient_by_class_as<T, Out>(context_, margin, columns, log_sums, factors, products, gradient);
  });
}

}  // namespace heddle
