#include "framework/kernels/head.h"

#include <algorithm>

#include "framework/backends/plan/context.h"

namespace heddle::plan {

namespace {

/// This many operations per element, and one more for the scale of the columns.
std::int64_t scaled(const HeadColumns& columns, std::int64_t operations) {
  return operations + (columns.scale.defined() ? 1 : 0);
}
/// The operations of a negative map per element.
std::int64_t mapped(const MarginConfig& margin) {
  return has_negative_map(margin) ? 3 : 0;
}

}  // namespace

}  // namespace heddle::plan

namespace heddle {

template <>
void HeadKernelsOn<plan::Context>::target_products(const HeadTargets& targets, const Tensor& rows, Tensor& /*products*/,
                                                   Tensor& radii, Tensor& /*best*/) const {
  context_.counter.kernel(2 * targets.rows.numel() + (radii.defined() ? 4 * rows.numel() : 0), rows, targets.rows);
}

template <>
void HeadKernelsOn<plan::Context>::row_parameters(const MarginConfig& /*margin*/, const Tensor& /*running*/,
                                                  const Tensor& statistic, Tensor& parameter,
                                                  Tensor& /*moments*/) const {
  context_.counter.kernel(8 * statistic.numel(), statistic, parameter);
}

template <>
void HeadKernelsOn<plan::Context>::update_running(const MarginConfig& /*margin*/, const Tensor& moments,
                                                  Tensor& running) const {
  context_.counter.kernel(8, moments, running);
}

template <>
void HeadKernelsOn<plan::Context>::margin_logits(const StepMargin& margin, const HeadColumns& columns, Tensor& logits,
                                                 Tensor& /*target_logit*/, Tensor& /*target_slope*/,
                                                 Tensor& /*row_max*/) const {
  context_.counter.kernel((plan::scaled(columns, 2) + plan::mapped(margin.config)) * logits.numel(), logits, logits);
}

template <>
void HeadKernelsOn<plan::Context>::exponential_sums(const StepMargin& margin, const HeadColumns& /*columns*/,
                                                    const Tensor& logits, const Tensor& /*row_max*/,
                                                    Tensor& /*sums*/) const {
  context_.counter.kernel((3 + plan::mapped(margin.config)) * logits.numel(), logits);
}

template <>
void HeadKernelsOn<plan::Context>::margin_loss(const Tensor& row_max, const Tensor& /*sums*/,
                                               const Tensor& /*target_logit*/, Tensor& /*log_sums*/,
                                               Tensor& /*loss*/) const {
  context_.counter.kernel(3 * row_max.numel(), row_max);
}

template <>
void HeadKernelsOn<plan::Context>::margin_gradient(const StepMargin& margin, const HeadColumns& columns,
                                                   const Tensor& /*log_sums*/, const Tensor& /*target_slope*/,
                                                   const LossFactors& /*factors*/, Tensor& logits) const {
  context_.counter.kernel((plan::scaled(columns, 3) + 2 * plan::mapped(margin.config)) * logits.numel(), logits,
                          logits);
}

template <>
void HeadKernelsOn<plan::Context>::raise_reference(const Tensor& row_max, Tensor& reference, Tensor& sums,
                                                   Tensor& factor) const {
  context_.counter.kernel(4 * row_max.numel(), row_max, reference, reference, sums, sums, factor);
}

template <>
void HeadKernelsOn<plan::Context>::accumulate_exponentials(const StepMargin& margin, const HeadColumns& columns,
                                                           const Tensor& /*reference*/, Tensor& logits,
                                                           Tensor& /*sums*/) const {
  context_.counter.kernel((plan::scaled(columns, 3) + 2 * plan::mapped(margin.config)) * logits.numel(), logits,
                          logits);
}

template <>
void HeadKernelsOn<plan::Context>::product_exponentials(const StepMargin& /*margin*/, const HeadColumns& columns,
                                                        const Tensor& /*reference*/, Tensor& products,
                                                        Tensor& /*target_logit*/, Tensor& /*target_slope*/,
                                                        Tensor& exponentials, Tensor& /*sums*/) const {
  context_.counter.kernel((plan::scaled(columns, 2) + plan::scaled(columns, 3)) * products.numel(), products,
                          exponentials);
}

template <>
void HeadKernelsOn<plan::Context>::local_columns(const Tensor& labels, const IndexRange& /*range*/,
                                                 Tensor& local) const {
  context_.counter.kernel(local.numel(), labels, local);
}

template <>
void HeadKernelsOn<plan::Context>::fused_gradient(const MarginConfig& /*margin*/, const LossFactors& /*factors*/,
                                                  const HeadTargets& targets, const HeadSoftmax& /*known*/,
                                                  Tensor& weighted) const {
  context_.counter.kernel(3 * weighted.numel(), targets.rows, weighted, weighted);
}

template <>
void HeadKernelsOn<plan::Context>::stashed_gradient(const MarginConfig& /*margin*/, const HeadColumns& columns,
                                                    const LossFactors& /*factors*/, const HeadSoftmax& /*known*/,
                                                    const Tensor& exponentials, Tensor& gradient) const {
  context_.counter.kernel(plan::scaled(columns, 1) * gradient.numel(), exponentials, gradient);
}

template <>
void HeadKernelsOn<plan::Context>::gradient_by_class(const StepMargin& /*margin*/, const HeadColumns& columns,
                                                     const Tensor& /*log_sums*/, const LossFactors& /*factors*/,
                                                     Tensor& products, Tensor& gradient) const {
  context_.counter.kernel((plan::scaled(columns, 2) + 3) * products.numel(), products, gradient);
}

template <>
void HeadKernelsOn<plan::Context>::radial_share(const StepMargin& /*margin*/, const Tensor& products,
                                                const Tensor& log_sums, const LossFactors& /*factors*/,
                                                Tensor& share) const {
  context_.counter.kernel(10 * products.numel(), products, log_sums, share);
}

template <>
void HeadKernelsOn<plan::Context>::add_radial(const Tensor& share, const Tensor& index, std::int64_t /*begin*/,
                                              const Tensor& rows, Tensor& /*gradient*/) const {
  // With an index, none or all of the rows may be met: the rows that are here and no more than there are shares.
  const std::int64_t met = std::min(share.numel(), rows.shape()[0]);
  context_.counter.kernel(4 * met * rows.shape()[1], share, index);
}

template <>
void HeadKernelsOn<plan::Context>::best_centres(const Tensor& products, const Tensor& scale, Tensor& cosines,
                                                Tensor& best) const {
  context_.counter.kernel((scale.defined() ? 2 : 1) * products.numel(), products, cosines, best);
}

template <>
void HeadKernelsOn<plan::Context>::spread_centres(const Tensor& by_cosine, const Tensor& best, const Tensor& /*scale*/,
                                                  Tensor& gradient) const {
  context_.counter.kernel(gradient.numel(), by_cosine, best, gradient);
}

}  // namespace heddle
