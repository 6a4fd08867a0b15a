// The cuda backend's kernels of the head, by theme; head.cu composes them.
#pragma once

#include "framework/backends/cuda/device/context.h"
#include "framework/kernels/head.h"

namespace heddle::cuda {

// head_targets.cu
void target_products(const Context& context, const Tensor& labels, const ShardRange& range, const Tensor& rows,
                     const Tensor& target_rows, const Tensor& target_scale, Tensor& products, Tensor& radii,
                     Tensor& best);
void row_parameters(const Context& context, const MarginConfig& margin, const Tensor& running, const Tensor& statistic,
                    Tensor& parameter, Tensor& moments);
void update_running(const Context& context, const MarginConfig& margin, const Tensor& moments, Tensor& running);
void local_columns(const Context& context, const Tensor& labels, const ShardRange& range, Tensor& local);
// head_margin.cu
void margin_logits(const Context& context, const StepMargin& margin, const HeadColumns& columns, Tensor& logits,
                   Tensor& target_logit, Tensor& target_slope, Tensor& row_max);
void exponential_sums(const Context& context, const StepMargin& margin, const HeadColumns& columns,
                      const Tensor& logits, const Tensor& row_max, Tensor& sums);
void margin_loss(const Context& context, const Tensor& row_max, const Tensor& sums, const Tensor& target_logit,
                 Tensor& log_sums, Tensor& loss);
void margin_gradient(const Context& context, const StepMargin& margin, const HeadColumns& columns,
                     const Tensor& log_sums, const Tensor& target_slope, double loss_scale, Tensor& logits);
// head_tiles.cu
void raise_reference(const Context& context, const Tensor& row_max, Tensor& reference, Tensor& sums, Tensor& factor);
void accumulate_exponentials(const Context& context, const StepMargin& margin, const HeadColumns& columns,
                             const Tensor& reference, Tensor& logits, Tensor& sums);
void fused_gradient(const Context& context, const MarginConfig& margin, double loss_scale, const Tensor& labels,
                    const ShardRange& range, const Tensor& reference, const Tensor& log_sums,
                    const Tensor& target_logit, const Tensor& target_slope, const Tensor& target_rows,
                    const Tensor& target_scale, Tensor& weighted);
void stashed_gradient(const Context& context, const MarginConfig& margin, const HeadColumns& columns, double loss_scale,
                      const Tensor& reference, const Tensor& log_sums, const Tensor& target_logit,
                      const Tensor& target_slope, const Tensor& exponentials, Tensor& gradient);
void gradient_by_class(const Context& context, const StepMargin& margin, const HeadColumns& columns,
                       const Tensor& log_sums, double loss_scale, Tensor& products);
// head_radial.cu
void radial_share(const Context& context, const StepMargin& margin, const Tensor& products, const Tensor& log_sums,
                  double loss_scale, Tensor& share);
void add_radial(const Context& context, const Tensor& share, const Tensor& index, std::int64_t begin,
                const Tensor& rows, Tensor& gradient);
// head_centres.cu
void best_centres(const Context& context, const Tensor& products, const Tensor& scale, Tensor& cosines, Tensor& best);
void spread_centres(const Context& context, const Tensor& by_cosine, const Tensor& best, const Tensor& scale,
                    Tensor& gradient);

}  // namespace heddle::cuda
