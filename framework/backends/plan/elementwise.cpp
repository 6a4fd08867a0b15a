#include "framework/backends/plan/plan_kernels.h"

namespace heddle::plan {

namespace {

// One operation an element, however costly the function.
class PlanElementwise final : public ElementwiseKernels {
 public:
  explicit PlanElementwise(WorkCounter& counter) : counter_(counter) {}

  void fill(Tensor& y, double /*value*/) const override { counter_.kernel(0, y); }
  void cast(const Tensor& x, Tensor& y) const override { counter_.kernel(0, x, y); }
  void unary(UnaryOp /*op*/, const Tensor& x, Tensor& y) const override { counter_.kernel(y.numel(), x, y); }
  void unary_backward(UnaryOp op, const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) const override {
    counter_.kernel(2 * dx.numel(), unary_keeps_input(op) ? x : y, dy, dx);
  }
  void binary(BinaryOp /*op*/, const Tensor& a, const Tensor& b, Tensor& y) const override {
    counter_.kernel(y.numel(), a, b, y);
  }
  void scale_add(double /*alpha*/, const Tensor& x, double beta, Tensor& y) const override {
    counter_.kernel((beta == 0 ? 1 : 2) * y.numel(), x, beta == 0 ? Tensor() : y, y);
  }
  void reduce(ReduceOp /*op*/, const Tensor& x, std::array<std::int64_t, 3> /*view*/, Tensor& y) const override {
    counter_.kernel(x.numel(), x, y);
  }
  void combine(ReduceOp /*op*/, std::span<const Tensor> parts, std::span<Tensor> results) const override {
    const auto tensors = static_cast<std::int64_t>(parts.size() + results.size());
    counter_.add(static_cast<std::int64_t>(parts.size() - 1) * results[0].numel(), tensors * results[0].bytes());
  }
  void reduce_max_backward(const Tensor& x, const Tensor& y, std::array<std::int64_t, 3> /*view*/, const Tensor& dy,
                           Tensor& dx) const override {
    counter_.kernel(x.numel(), x, y, dy, dx);
  }
  void transpose(const Tensor& x, std::span<const int> /*order*/, Tensor& y) const override {
    counter_.kernel(0, x, y);
  }
  void copy_columns(const Tensor& x, std::int64_t /*x_columns*/, std::int64_t /*x_begin*/, Tensor& /*y*/,
                    std::int64_t /*y_columns*/, std::int64_t /*y_begin*/, std::int64_t rows,
                    std::int64_t columns) const override {
    counter_.add(0, 2 * rows * columns * static_cast<std::int64_t>(size_of(x.dtype())));
  }
  void prelu(const Tensor& x, const Tensor& /*slope*/, Tensor& y) const override { counter_.kernel(x.numel(), x, y); }
  void prelu_backward(const Tensor& x, const Tensor& /*slope*/, const Tensor& dy, Tensor& dx,
                      Tensor& dslope) const override {
    counter_.kernel((dx.defined() ? x.numel() : 0) + (dslope.defined() ? 2 * x.numel() : 0), x, dy, dx);
  }

 private:
  WorkCounter& counter_;
};

class PlanTraining final : public TrainingKernels {
 public:
  explicit PlanTraining(WorkCounter& counter) : counter_(counter) {}

  void fill_normal(Tensor& y, const DrawKey& /*key*/, const DrawWindow& /*window*/, double /*mean*/,
                   double /*deviation*/) const override {
    counter_.kernel(0, y);
  }
  void fill_uniform(Tensor& y, const DrawKey& /*key*/, const DrawWindow& /*window*/, double /*low*/,
                    double /*high*/) const override {
    counter_.kernel(0, y);
  }
  void dropout(const Tensor& x, const DrawKey& /*key*/, const DrawWindow& /*window*/, double /*probability*/,
               Tensor& y) const override {
    counter_.kernel(x.numel(), x, y);
  }
  void add_squared_norm(const Tensor& x, Tensor& /*result*/) const override { counter_.kernel(2 * x.numel(), x); }
  void clamp(Tensor& x, double /*bound*/) const override { counter_.kernel(0, x, x); }
  void sgd(const SgdStep& /*step*/, const Tensor& gradient, Tensor& weight, Tensor& velocity) const override {
    counter_.kernel((velocity.defined() ? 6 : 4) * weight.numel(), gradient, weight, weight, velocity, velocity);
  }
  void adamw(const AdamWStep& /*step*/, const Tensor& gradient, Tensor& weight, Tensor& mean,
             Tensor& square) const override {
    counter_.kernel(14 * weight.numel(), gradient, weight, weight, mean, mean, square, square);
  }
  void combine_moments(const Tensor& groups, Tensor& /*merged*/) const override {
    counter_.kernel(5 * groups.numel(), groups);
  }
  void merge_moments(const Tensor& groups, double /*momentum*/, Tensor& /*running_mean*/,
                     Tensor& /*running_variance*/) const override {
    counter_.kernel(5 * groups.numel(), groups);
  }

 private:
  WorkCounter& counter_;
};

}  // namespace

std::unique_ptr<ElementwiseKernels> make_plan_elementwise(WorkCounter& counter) {
  return std::make_unique<PlanElementwise>(counter);
}
std::unique_ptr<TrainingKernels> make_plan_training(WorkCounter& counter) {
  return std::make_unique<PlanTraining>(counter);
}

}  // namespace heddle::plan
