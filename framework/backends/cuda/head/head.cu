#include "framework/backends/cuda/cuda_kernels.h"
#include "framework/backends/cuda/head/head.h"

namespace heddle::cuda {

namespace {

class CudaHead final : public HeadKernels {
 public:
  explicit CudaHead(const Context& context) : context_(context) {}

  void target_products(const Tensor& labels, const ShardRange& range, const Tensor& rows, const Tensor& target_rows,
                       const Tensor& target_scale, Tensor& products, Tensor& radii, Tensor& best) const override {
    cuda::target_products(context_, labels, range, rows, target_rows, target_scale, products, radii, best);
  }
  void row_parameters(const MarginConfig& margin, const Tensor& running, const Tensor& statistic, Tensor& parameter,
                      Tensor& moments) const override {
    cuda::row_parameters(context_, margin, running, statistic, parameter, moments);
  }
  void update_running(const MarginConfig& margin, const Tensor& moments, Tensor& running) const override {
    cuda::update_running(context_, margin, moments, running);
  }

  void margin_logits(const StepMargin& margin, const HeadColumns& columns, Tensor& logits, Tensor& target_logit,
                     Tensor& target_slope, Tensor& row_max) const override {
    cuda::margin_logits(context_, margin, columns, logits, target_logit, target_slope, row_max);
  }
  void exponential_sums(const StepMargin& margin, const HeadColumns& columns, const Tensor& logits,
                        const Tensor& row_max, Tensor& sums) const override {
    cuda::exponential_sums(context_, margin, columns, logits, row_max, sums);
  }
  void margin_loss(const Tensor& row_max, const Tensor& sums, const Tensor& target_logit, Tensor& log_sums,
                   Tensor& loss) const override {
    cuda::margin_loss(context_, row_max, sums, target_logit, log_sums, loss);
  }
  void margin_gradient(const StepMargin& margin, const HeadColumns& columns, const Tensor& log_sums,
                       const Tensor& target_slope, double loss_scale, Tensor& logits) const override {
    cuda::margin_gradient(context_, margin, columns, log_sums, target_slope, loss_scale, logits);
  }

  void raise_reference(const Tensor& row_max, Tensor& reference, Tensor& sums, Tensor& factor) const override {
    cuda::raise_reference(context_, row_max, reference, sums, factor);
  }
  void accumulate_exponentials(const StepMargin& margin, const HeadColumns& columns, const Tensor& reference,
                               Tensor& logits, Tensor& sums) const override {
    cuda::accumulate_exponentials(context_, margin, columns, reference, logits, sums);
  }
  void local_columns(const Tensor& labels, const ShardRange& range, Tensor& local) const override {
    cuda::local_columns(context_, labels, range, local);
  }
  void fused_gradient(const MarginConfig& margin, double loss_scale, const Tensor& labels, const ShardRange& range,
                      const Tensor& reference, const Tensor& log_sums, const Tensor& target_logit,
                      const Tensor& target_slope, const Tensor& target_rows, const Tensor& target_scale,
                      Tensor& weighted) const override {
    cuda::fused_gradient(context_, margin, loss_scale, labels, range, reference, log_sums, target_logit, target_slope,
                         target_rows, target_scale, weighted);
  }
  void stashed_gradient(const MarginConfig& margin, const HeadColumns& columns, double loss_scale,
                        const Tensor& reference, const Tensor& log_sums, const Tensor& target_logit,
                        const Tensor& target_slope, const Tensor& exponentials, Tensor& gradient) const override {
    cuda::stashed_gradient(context_, margin, columns, loss_scale, reference, log_sums, target_logit, target_slope,
                           exponentials, gradient);
  }
  void gradient_by_class(const StepMargin& margin, const HeadColumns& columns, const Tensor& log_sums,
                         double loss_scale, Tensor& products) const override {
    cuda::gradient_by_class(context_, margin, columns, log_sums, loss_scale, products);
  }

  void radial_share(const StepMargin& margin, const Tensor& products, const Tensor& log_sums, double loss_scale,
                    Tensor& share) const override {
    cuda::radial_share(context_, margin, products, log_sums, loss_scale, share);
  }
  void add_radial(const Tensor& share, const Tensor& index, std::int64_t begin, const Tensor& rows,
                  Tensor& gradient) const override {
    cuda::add_radial(context_, share, index, begin, rows, gradient);
  }

  void best_centres(const Tensor& products, const Tensor& scale, Tensor& cosines, Tensor& best) const override {
    cuda::best_centres(context_, products, scale, cosines, best);
  }
  void spread_centres(const Tensor& by_cosine, const Tensor& best, const Tensor& scale,
                      Tensor& gradient) const override {
    cuda::spread_centres(context_, by_cosine, best, scale, gradient);
  }

 private:
  const Context& context_;
};

}  // namespace

std::unique_ptr<HeadKernels> make_cuda_head(const Context& context) {
  return std::make_unique<CudaHead>(context);
}

}  // namespace heddle::cuda
