#include "framework/backends/plan/head.h"

#include <algorithm>

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

void PlanHead::target_products(const HeadTargets& targets, const Tensor& rows, Tensor& /*products*/, Tensor& radii,
                               Tensor& /*best*/) const {
  counter_.kernel(2 * targets.rows.numel() + (radii.defined() ? 4 * rows.numel() : 0), rows, targets.rows);
}

void PlanHead::row_parameters(const MarginConfig& /*margin*/, const Tensor& /*running*/, const Tensor& statistic,
                              Tensor& parameter, Tensor& /*moments*/) const {
  counter_.kernel(8 * statistic.numel(), statistic, parameter);
}

void PlanHead::update_running(const MarginConfig& /*margin*/, const Tensor& moments, Tensor& running) const {
  counter_.kernel(8, moments, running);
}

void PlanHead::margin_logits(const StepMargin& margin, const HeadColumns& columns, Tensor& logits,
                             Tensor& /*target_logit*/, Tensor& /*target_slope*/, Tensor& /*row_max*/) const {
  counter_.kernel((scaled(columns, 2) + mapped(margin.config)) * logits.numel(), logits, logits);
}

void PlanHead::exponential_sums(const StepMargin& margin, const HeadColumns& /*columns*/, const Tensor& logits,
                                const Tensor& /*row_max*/, Tensor& /*sums*/) const {
  counter_.kernel((3 + mapped(margin.config)) * logits.numel(), logits);
}

void PlanHead::margin_loss(const Tensor& row_max, const Tensor& /*sums*/, const Tensor& /*target_logit*/,
                           Tensor& /*log_sums*/, Tensor& /*loss*/) const {
  counter_.kernel(3 * row_max.numel(), row_max);
}

void PlanHead::margin_gradient(const StepMargin& margin, const HeadColumns& columns, const Tensor& /*log_sums*/,
                               const Tensor& /*target_slope*/, double /*loss_scale*/, Tensor& logits) const {
  counter_.kernel((scaled(columns, 3) + 2 * mapped(margin.config)) * logits.numel(), logits, logits);
}

void PlanHead::raise_reference(const Tensor& row_max, Tensor& reference, Tensor& sums, Tensor& factor) const {
  counter_.kernel(4 * row_max.numel(), row_max, reference, reference, sums, sums, factor);
}

void PlanHead::accumulate_exponentials(const StepMargin& margin, const HeadColumns& columns,
                                       const Tensor& /*reference*/, Tensor& logits, Tensor& /*sums*/) const {
  counter_.kernel((scaled(columns, 3) + 2 * mapped(margin.config)) * logits.numel(), logits, logits);
}

void PlanHead::local_columns(const Tensor& labels, const ShardRange& /*range*/, Tensor& local) const {
  counter_.kernel(local.numel(), labels, local);
}

void PlanHead::fused_gradient(const MarginConfig& /*margin*/, double /*loss_scale*/, const HeadTargets& targets,
                              const HeadSoftmax& /*known*/, Tensor& weighted) const {
  counter_.kernel(3 * weighted.numel(), targets.rows, weighted, weighted);
}

void PlanHead::stashed_gradient(const MarginConfig& /*margin*/, const HeadColumns& columns, double /*loss_scale*/,
                                const HeadSoftmax& /*known*/, const Tensor& exponentials, Tensor& gradient) const {
  counter_.kernel(scaled(columns, 1) * gradient.numel(), exponentials, gradient);
}

void PlanHead::gradient_by_class(const StepMargin& /*margin*/, const HeadColumns& columns, const Tensor& /*log_sums*/,
                                 double /*loss_scale*/, Tensor& products) const {
  counter_.kernel((scaled(columns, 2) + 3) * products.numel(), products, products);
}

void PlanHead::radial_share(const StepMargin& /*margin*/, const Tensor& products, const Tensor& log_sums,
                            double /*loss_scale*/, Tensor& share) const {
  counter_.kernel(10 * products.numel(), products, log_sums, share);
}

void PlanHead::add_radial(const Tensor& share, const Tensor& index, std::int64_t /*begin*/, const Tensor& rows,
                          Tensor& /*gradient*/) const {
  // With an index, none or all of the rows may be met: the rows that are here and no more than there are shares.
  const std::int64_t met = std::min(share.numel(), rows.shape()[0]);
  counter_.kernel(4 * met * rows.shape()[1], share, index);
}

void PlanHead::best_centres(const Tensor& products, const Tensor& scale, Tensor& cosines, Tensor& best) const {
  counter_.kernel((scale.defined() ? 2 : 1) * products.numel(), products, cosines, best);
}

void PlanHead::spread_centres(const Tensor& by_cosine, const Tensor& best, const Tensor& /*scale*/,
                              Tensor& gradient) const {
  counter_.kernel(gradient.numel(), by_cosine, best, gradient);
}

}  // namespace heddle::plan
