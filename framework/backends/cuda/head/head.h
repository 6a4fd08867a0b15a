// The cuda backend's kernels of the large-class head.
#pragma once

#include "framework/backends/cuda/device/context.h"
#include "framework/kernels/head.h"

namespace heddle::cuda {

class CudaHead final : public HeadKernels {
 public:
  explicit CudaHead(const Context& context) : context_(context) {}

  void target_products(const HeadTargets& targets, const Tensor& rows, Tensor& products, Tensor& radii,
                       Tensor& best) const override;
  void row_parameters(const MarginConfig& margin, const Tensor& running, const Tensor& statistic, Tensor& parameter,
                      Tensor& moments) const override;
  void update_running(const MarginConfig& margin, const Tensor& moments, Tensor& running) const override;
  void margin_logits(const StepMargin& margin, const HeadColumns& columns, Tensor& logits, Tensor& target_logit,
                     Tensor& target_slope, Tensor& row_max) const override;
  void exponential_sums(const StepMargin& margin, const HeadColumns& columns, const Tensor& logits,
                        const Tensor& row_max, Tensor& sums) const override;
  void margin_loss(const Tensor& row_max, const Tensor& sums, const Tensor& target_logit, Tensor& log_sums,
                   Tensor& loss) const override;
  void margin_gradient(const StepMargin& margin, const HeadColumns& columns, const Tensor& log_sums,
                       const Tensor& target_slope, double loss_scale, Tensor& logits) const override;
  void raise_reference(const Tensor& row_max, Tensor& reference, Tensor& sums, Tensor& factor) const override;
  void accumulate_exponentials(const StepMargin& margin, const HeadColumns& columns, const Tensor& reference,
                               Tensor& logits, Tensor& sums) const override;
  void local_columns(const Tensor& labels, const ShardRange& range, Tensor& local) const override;
  void fused_gradient(const MarginConfig& margin, double loss_scale, const HeadTargets& targets,
                      const HeadSoftmax& known, Tensor& weighted) const override;
  void stashed_gradient(const MarginConfig& margin, const HeadColumns& columns, double loss_scale,
                        const HeadSoftmax& known, const Tensor& exponentials, Tensor& gradient) const override;
  void gradient_by_class(const StepMargin& margin, const HeadColumns& columns, const Tensor& log_sums,
                         double loss_scale, Tensor& products) const override;
  void radial_share(const StepMargin& margin, const Tensor& products, const Tensor& log_sums, double loss_scale,
                    Tensor& share) const override;
  void add_radial(const Tensor& share, const Tensor& index, std::int64_t begin, const Tensor& rows,
                  Tensor& gradient) const override;
  void best_centres(const Tensor& products, const Tensor& scale, Tensor& cosines, Tensor& best) const override;
  void spread_centres(const Tensor& by_cosine, const Tensor& best, const Tensor& scale,
                      Tensor& gradient) const override;

 private:
  const Context& context_;
};

}  // namespace heddle::cuda
