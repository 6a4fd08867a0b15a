#include "framework/backends/plan/class_rows.h"
#include "framework/backends/plan/convolution.h"
#include "framework/backends/plan/elementwise.h"
#include "framework/backends/plan/head.h"
#include "framework/backends/plan/linear_algebra.h"
#include "framework/backends/plan/normalization.h"
#include "framework/backends/plan/pooling.h"
#include "framework/backends/plan/reduction.h"
#include "framework/backends/plan/rows.h"
#include "framework/backends/plan/shape.h"
#include "framework/backends/plan/training.h"
#include "framework/backends/plan/work_counter.h"
#include "framework/error.h"
#include "framework/kernels/needs.h"

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

 private:
  const BackendKernels& kernels() const override { return kernels_; }

  plan::WorkCounter counter_;
  std::shared_ptr<KernelNeeds> needs_;
  BackendKernels kernels_{.elementwise = std::make_unique<plan::PlanElementwise>(counter_),
                          .reduction = std::make_unique<plan::PlanReduction>(counter_),
                          .shape = std::make_unique<plan::PlanShape>(counter_),
                          .linear_algebra = std::make_unique<plan::PlanLinearAlgebra>(counter_, *needs_),
                          .convolution = std::make_unique<plan::PlanConvolution>(counter_, *needs_),
                          .normalization = std::make_unique<plan::PlanNormalization>(counter_),
                          .pooling = std::make_unique<plan::PlanPooling>(counter_),
                          .rows = std::make_unique<plan::PlanRows>(counter_),
                          .head = std::make_unique<plan::PlanHead>(counter_),
                          .class_rows = std::make_unique<plan::PlanClassRows>(counter_),
                          .training = std::make_unique<plan::PlanTraining>(counter_)};
};

}  // namespace

std::unique_ptr<Backend> make_plan_backend(const BackendOptions& options) {
  return std::make_unique<PlanBackend>(options);
}

}  // namespace heddle
