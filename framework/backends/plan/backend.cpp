#include "framework/backends/kernels_on.h"
#include "framework/backends/plan/context.h"
#include "framework/error.h"
#include "framework/kernels/needs.h"

namespace heddle {

namespace {

std::shared_ptr<KernelNeeds> needs_of(const BackendOptions& options) {
  if (options.planned == "cuda") return make_cuda_needs(options.tf32);
  if (options.planned == "cpu") return make_cpu_needs(options.threads.value_or(1), options.winograd);
  fail<InputError>("unknown device '{}' to plan for: expected cpu or cuda", options.planned);
}

class PlanBackend final : public Backend {
 public:
  explicit PlanBackend(const BackendOptions& options)
      : context_{plan::WorkCounter(options.profile), needs_of(options)} {}

  std::string_view name() const override { return "plan"; }
  bool has_data() const override { return false; }

  void* allocate(std::int64_t /*bytes*/) override { return nullptr; }
  void deallocate(void* /*address*/, std::int64_t /*bytes*/) override {}
  std::int64_t reserved_bytes() const override { return 0; }

  std::byte* allocate_host(std::int64_t /*bytes*/) override { return nullptr; }
  void deallocate_host(std::byte* /*host*/, std::int64_t /*bytes*/) override {}
  void offload(void* /*device*/, std::span<std::byte> /*host*/) override {}
  void* load(std::span<const std::byte> /*host*/) override { return nullptr; }
  std::shared_ptr<const Mark> transfers() override { return nullptr; }

  void copy_from_host(void* /*device*/, std::span<const std::byte> /*host*/) override {}
  void copy_to_host(std::span<std::byte> /*host*/, const void* /*device*/) override {}
  void copy(void* /*to*/, const void* /*from*/, std::int64_t bytes) override { context_.counter.add(0, 2 * bytes); }
  std::shared_ptr<const Mark> mark() override { return nullptr; }
  void wait_for(const Mark* /*mark*/) override {}
  void synchronize() override {}
  void settle() noexcept override {}
  void enter_thread() override {}

  PlannedWork work() const override { return context_.counter.work(); }
  void repeat(const PlannedWork& since, std::int64_t times) override { context_.counter.repeat(since, times); }

 private:
  const BackendKernels& kernels() const override { return kernels_; }

  plan::Context context_;
  BackendKernels kernels_ = kernels_on(context_);
};

}  // namespace

std::unique_ptr<Backend> make_plan_backend(const BackendOptions& options) {
  return std::make_unique<PlanBackend>(options);
}

}  // namespace heddle
