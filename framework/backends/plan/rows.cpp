#include <algorithm>

#include "framework/backends/plan/plan_kernels.h"

namespace heddle::plan {

namespace {

class PlanRows final : public RowKernels {
 public:
  explicit PlanRows(WorkCounter& counter) : counter_(counter) {}

  // Of the tables only the rows that are named are read and written.
  void gather(const Tensor& /*x*/, const Tensor& index, Tensor& y) const override { counter_.kernel(0, index, y, y); }
  void scatter_add(const Tensor& x, const Tensor& index, Tensor& /*y*/) const override {
    counter_.kernel(x.numel(), index, x, x, x);
  }
  void top_k(const Tensor& x, Tensor& values, Tensor& index) const override { count(1, x, values, index); }
  void softmax(const Tensor& x, Tensor& y) const override { count(4, x, y); }
  void softmax_backward(const Tensor& y, const Tensor& dy, Tensor& dx) const override { count(4, y, dy, dx); }
  void log_sum_exp(const Tensor& x, Tensor& /*y*/) const override { count(3, x); }
  void log_sum_exp_backward(const Tensor& x, const Tensor& /*y*/, const Tensor& /*dy*/, Tensor& dx) const override {
    count(3, x, dx);
  }
  void cross_entropy(const Tensor& /*x*/, const Tensor& log_sums, const Tensor& /*labels*/,
                     Tensor& /*loss*/) const override {
    count(1, log_sums);
  }
  void cross_entropy_backward(const Tensor& x, const Tensor& /*log_sums*/, const Tensor& /*labels*/,
                              const Tensor& /*dloss*/, Tensor& dx) const override {
    count(3, x, dx);
  }
  void l2_normalize(const Tensor& x, double /*epsilon*/, Tensor& y, Tensor& /*inverse_norm*/) const override {
    count(y.defined() ? 3 : 2, x, y);
  }
  void l2_normalize_backward(const Tensor& x, const Tensor& /*inverse_norm*/, const Tensor& dy,
                             Tensor& dx) const override {
    count(5, x, dy, dx);
  }
  void layer_norm(const Tensor& x, const Tensor& /*gamma*/, const Tensor& /*beta*/, double /*epsilon*/, Tensor& y,
                  Tensor& /*statistics*/) const override {
    count(8, x, y);
  }
  void layer_norm_backward(const Tensor& x, const Tensor& /*gamma*/, const Tensor& /*statistics*/, const Tensor& dy,
                           Tensor& dx, Tensor& dgamma, Tensor& dbeta) const override {
    count((dx.defined() ? 10 : 0) + (dgamma.defined() ? 4 : 0) + (dbeta.defined() ? 1 : 0), x, dy, dx);
  }

 private:
  /// So many operations an element of x.
  template <class... Tensors>
  void count(std::int64_t operations, const Tensor& x, const Tensors&... others) const {
    counter_.kernel(operations * x.numel(), x, others...);
  }

  WorkCounter& counter_;
};

class PlanHead final : public HeadKernels {
 public:
  explicit PlanHead(WorkCounter& counter) : counter_(counter) {}

  void target_products(const Tensor& /*labels*/, const ShardRange& /*range*/, const Tensor& rows,
                       const Tensor& target_rows, const Tensor& /*target_scale*/, Tensor& /*products*/, Tensor& radii,
                       Tensor& /*best*/) const override {
    counter_.kernel(2 * target_rows.numel() + (radii.defined() ? 4 * rows.numel() : 0), rows, target_rows);
  }
  void row_parameters(const MarginConfig& /*margin*/, const Tensor& /*running*/, const Tensor& statistic,
                      Tensor& parameter, Tensor& /*moments*/) const override {
    counter_.kernel(8 * statistic.numel(), statistic, parameter);
  }
  void update_running(const MarginConfig& /*margin*/, const Tensor& moments, Tensor& running) const override {
    counter_.kernel(8, moments, running);
  }

  void margin_logits(const StepMargin& margin, const HeadColumns& columns, Tensor& logits, Tensor& /*target_logit*/,
                     Tensor& /*target_slope*/, Tensor& /*row_max*/) const override {
    counter_.kernel((scaled(columns, 2) + mapped(margin.config)) * logits.numel(), logits, logits);
  }
  void exponential_sums(const StepMargin& margin, const HeadColumns& /*columns*/, const Tensor& logits,
                        const Tensor& /*row_max*/, Tensor& /*sums*/) const override {
    counter_.kernel((3 + mapped(margin.config)) * logits.numel(), logits);
  }
  void margin_loss(const Tensor& row_max, const Tensor& /*sums*/, const Tensor& /*target_logit*/, Tensor& /*log_sums*/,
                   Tensor& /*loss*/) const override {
    counter_.kernel(3 * row_max.numel(), row_max);
  }
  void margin_gradient(const StepMargin& margin, const HeadColumns& columns, const Tensor& /*log_sums*/,
                       const Tensor& /*target_slope*/, double /*loss_scale*/, Tensor& logits) const override {
    counter_.kernel((scaled(columns, 3) + 2 * mapped(margin.config)) * logits.numel(), logits, logits);
  }
  void raise_reference(const Tensor& row_max, Tensor& reference, Tensor& sums, Tensor& factor) const override {
    counter_.kernel(4 * row_max.numel(), row_max, reference, reference, sums, sums, factor);
  }
  void accumulate_exponentials(const StepMargin& margin, const HeadColumns& columns, const Tensor& /*reference*/,
                               Tensor& logits, Tensor& /*sums*/) const override {
    counter_.kernel((scaled(columns, 3) + 2 * mapped(margin.config)) * logits.numel(), logits, logits);
  }
  void local_columns(const Tensor& labels, const ShardRange& /*range*/, Tensor& local) const override {
    counter_.kernel(local.numel(), labels, local);
  }
  void fused_gradient(const MarginConfig& /*margin*/, double /*loss_scale*/, const Tensor& /*labels*/,
                      const ShardRange& /*range*/, const Tensor& /*reference*/, const Tensor& /*log_sums*/,
                      const Tensor& /*target_logit*/, const Tensor& /*target_slope*/, const Tensor& target_rows,
                      const Tensor& /*target_scale*/, Tensor& weighted) const override {
    counter_.kernel(3 * weighted.numel(), target_rows, weighted, weighted);
  }
  void stashed_gradient(const MarginConfig& /*margin*/, const HeadColumns& columns, double /*loss_scale*/,
                        const Tensor& /*reference*/, const Tensor& /*log_sums*/, const Tensor& /*target_logit*/,
                        const Tensor& /*target_slope*/, const Tensor& exponentials, Tensor& gradient) const override {
    counter_.kernel(scaled(columns, 1) * gradient.numel(), exponentials, gradient);
  }

  void gradient_by_class(const StepMargin& /*margin*/, const HeadColumns& columns, const Tensor& /*log_sums*/,
                         double /*loss_scale*/, Tensor& products) const override {
    counter_.kernel((scaled(columns, 2) + 3) * products.numel(), products, products);
  }

  void radial_share(const StepMargin& /*margin*/, const Tensor& products, const Tensor& log_sums, double /*loss_scale*/,
                    Tensor& share) const override {
    counter_.kernel(10 * products.numel(), products, log_sums, share);
  }
  void add_radial(const Tensor& share, const Tensor& index, std::int64_t /*begin*/, const Tensor& rows,
                  Tensor& /*gradient*/) const override {
    // With an index, none or all of the rows may be met: the rows that are here and no more than there are shares.
    const std::int64_t met = std::min(share.numel(), rows.shape()[0]);
    counter_.kernel(4 * met * rows.shape()[1], share, index);
  }
  void best_centres(const Tensor& products, const Tensor& scale, Tensor& cosines, Tensor& best) const override {
    counter_.kernel((scale.defined() ? 2 : 1) * products.numel(), products, cosines, best);
  }
  void spread_centres(const Tensor& by_cosine, const Tensor& best, const Tensor& /*scale*/,
                      Tensor& gradient) const override {
    counter_.kernel(gradient.numel(), by_cosine, best, gradient);
  }

 private:
  /// So many operations an element, and one for the columns' scale.
  static std::int64_t scaled(const HeadColumns& columns, std::int64_t operations) {
    return operations + (columns.scale.defined() ? 1 : 0);
  }
  /// Operations of a negative map.
  static std::int64_t mapped(const MarginConfig& margin) { return has_negative_map(margin) ? 3 : 0; }

  WorkCounter& counter_;
};

}  // namespace

std::unique_ptr<RowKernels> make_plan_rows(WorkCounter& counter) {
  return std::make_unique<PlanRows>(counter);
}
std::unique_ptr<HeadKernels> make_plan_head(WorkCounter& counter) {
  return std::make_unique<PlanHead>(counter);
}

}  // namespace heddle::plan
