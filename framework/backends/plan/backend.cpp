#include "framework/backends/plan/plan_kernels.h"
#include "framework/error.h"

namespace heddle {

namespace {

std::shared_ptr<KernelNeeds> needs_of(const BackendOptions& options) {
  if (options.planned == "cuda") return make_cuda_needs(options.tf32);
  if (options.planned == "cpu") return make_cpu_needs(options.threads, options.winograd);
  fail<InputError>("unknown device '{}' to plan for: expected cpu or cuda", options.planned);
}

class PlanBackend final : public Backend {
 public:
  explicit PlanBackend(const BackendOptions& options) : counter_(options.profile), needs_(needs_of(options)) {}

  std::string_view name() const override { return "plan"; }
  bool has_data() const override { return false; }

  void* allocate(std::int64_t /*bytes*/) override { return nullptr; }
  void deallocate(void* /*address*/, std::int64_t /*bytes*/) override {}
  std::int64_t reserved_bytes() const override { return 0; }

  void copy_from_host(void* /*device*/, std::span<const std::byte> /*host*/) override {}
  void copy_to_host(std::span<std::byte> /*host*/, const void* /*device*/) override {}
  void copy(void* /*to*/, const void* /*from*/, std::int64_t bytes) override { counter_.add(0, 2 * bytes); }
  std::shared_ptr<const Mark> mark() override { return nullptr; }
  void wait_for(const Mark* /*mark*/) override {}
  void synchronize() override {}
  void settle() noexcept override {}
  void enter_thread() override {}

  PlannedWork work() const override { return counter_.work(); }
  void repeat(const PlannedWork& since, std::int64_t times) override { counter_.repeat(since, times); }

  const ElementwiseKernels& elementwise() const override { return *elementwise_; }
  const LinearAlgebraKernels& linear_algebra() const override { return *linear_algebra_; }
  const ConvolutionKernels& convolution() const override { return *convolution_; }
  const RowKernels& rows() const override { return *rows_; }
  const HeadKernels& head() const override { return *head_; }
  const ClassRowKernels& class_rows() const override { return *class_rows_; }
  const TrainingKernels& training() const override { return *training_; }

 private:
  plan::WorkCounter counter_;
  std::shared_ptr<KernelNeeds> needs_;
  std::unique_ptr<ElementwiseKernels> elementwise_ = plan::make_plan_elementwise(counter_);
  std::unique_ptr<RowKernels> rows_ = plan::make_plan_rows(counter_);
  std::unique_ptr<HeadKernels> head_ = plan::make_plan_head(counter_);
  std::unique_ptr<ClassRowKernels> class_rows_ = plan::make_plan_class_rows(counter_);
  std::unique_ptr<TrainingKernels> training_ = plan::make_plan_training(counter_);
  std::unique_ptr<LinearAlgebraKernels> linear_algebra_ = plan::make_plan_linear_algebra(counter_, *needs_);
  std::unique_ptr<ConvolutionKernels> convolution_ = plan::make_plan_convolution(counter_, *needs_);
};

}  // namespace

std::unique_ptr<Backend> make_plan_backend(const BackendOptions& options) {
  return std::make_unique<PlanBackend>(options);
}

}  // namespace heddle
