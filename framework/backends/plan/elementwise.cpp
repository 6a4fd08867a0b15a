#include "framework/backends/plan/plan_kernels.h"

namespace heddle::plan {

namespace {

// One operation an element, however costly the function.
class PlanElementwise final : public ElementwiseKernels {
 public:
  explicit PlanElementwise(FlopCounter& counter) : counter_(counter) {}

  void fill(Tensor& /*y*/, double /*value*/) const override {}
  void cast(const Tensor& /*x*/, Tensor& /*y*/) const override {}
  void unary(UnaryOp /*op*/, const Tensor& /*x*/, Tensor& y) const override { counter_.flops += y.numel(); }
  void unary_backward(UnaryOp /*op*/, const Tensor& /*x*/, const Tensor& /*y*/, const Tensor& /*dy*/,
                      Tensor& dx) const override {
    counter_.flops += 2 * dx.numel();
  }
  void binary(BinaryOp /*op*/, const Tensor& /*a*/, const Tensor& /*b*/, Tensor& y) const override {
    counter_.flops += y.numel();
  }
  void scale_add(double /*alpha*/, const Tensor& /*x*/, double beta, Tensor& y) const override {
    counter_.flops += (beta == 0 ? 1 : 2) * y.numel();
  }
  void reduce(ReduceOp /*op*/, const Tensor& x, std::array<std::int64_t, 3> /*view*/, Tensor& /*y*/) const override {
    counter_.flops += x.numel();
  }
  void combine(ReduceOp /*op*/, std::span<const Tensor> parts, std::span<Tensor> results) const override {
    counter_.flops += static_cast<std::int64_t>(parts.size() - 1) * results[0].numel();
  }
  void reduce_max_backward(const Tensor& x, const Tensor& /*y*/, std::array<std::int64_t, 3> /*view*/,
                           const Tensor& /*dy*/, Tensor& /*dx*/) const override {
    counter_.flops += x.numel();
  }
  void transpose(const Tensor& /*x*/, std::span<const int> /*order*/, Tensor& /*y*/) const override {}
  void copy_columns(const Tensor& /*x*/, std::int64_t /*x_columns*/, std::int64_t /*x_begin*/, Tensor& /*y*/,
                    std::int64_t /*y_columns*/, std::int64_t /*y_begin*/, std::int64_t /*rows*/,
                    std::int64_t /*columns*/) const override {}
  void prelu(const Tensor& x, const Tensor& /*slope*/, Tensor& /*y*/) const override { counter_.flops += x.numel(); }
  void prelu_backward(const Tensor& x, const Tensor& /*slope*/, const Tensor& /*dy*/, Tensor& dx,
                      Tensor& dslope) const override {
    counter_.flops += (dx.defined() ? x.numel() : 0) + (dslope.defined() ? 2 * x.numel() : 0);
  }

 private:
  FlopCounter& counter_;
};

class PlanTraining final : public TrainingKernels {
 public:
  explicit PlanTraining(FlopCounter& counter) : counter_(counter) {}

  void fill_normal(Tensor& /*y*/, const DrawKey& /*key*/, const DrawWindow& /*window*/, double /*mean*/,
                   double /*deviation*/) const override {}
  void fill_uniform(Tensor& /*y*/, const DrawKey& /*key*/, const DrawWindow& /*window*/, double /*low*/,
                    double /*high*/) const override {}
  void dropout(const Tensor& x, const DrawKey& /*key*/, const DrawWindow& /*window*/, double /*probability*/,
               Tensor& /*y*/) const override {
    counter_.flops += x.numel();
  }
  void add_squared_norm(const Tensor& x, Tensor& /*result*/) const override { counter_.flops += 2 * x.numel(); }
  void clamp(Tensor& /*x*/, double /*bound*/) const override {}
  void sgd(const SgdStep& /*step*/, const Tensor& /*gradient*/, Tensor& weight, Tensor& velocity) const override {
    counter_.flops += (velocity.defined() ? 6 : 4) * weight.numel();
  }
  void adamw(const AdamWStep& /*step*/, const Tensor& /*gradient*/, Tensor& weight, Tensor& /*mean*/,
             Tensor& /*square*/) const override {
    counter_.flops += 14 * weight.numel();
  }
  void combine_moments(const Tensor& groups, Tensor& /*merged*/) const override {
    counter_.flops += 5 * groups.numel();
  }
  void merge_moments(const Tensor& groups, double /*momentum*/, Tensor& /*running_mean*/,
                     Tensor& /*running_variance*/) const override {
    counter_.flops += 5 * groups.numel();
  }

 private:
  FlopCounter& counter_;
};

}  // namespace

std::unique_ptr<ElementwiseKernels> make_plan_elementwise(FlopCounter& counter) {
  return std::make_unique<PlanElementwise>(counter);
}
std::unique_ptr<TrainingKernels> make_plan_training(FlopCounter& counter) {
  return std::make_unique<PlanTraining>(counter);
}

}  // namespace heddle::plan
