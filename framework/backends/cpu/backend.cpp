// The cpu backend: composes the kernel groups over one rank's allocator and thread team.
#include "framework/backends/backend.h"

#include <cstring>

#include <omp.h>

#include "framework/backends/cpu/allocator.h"
#include "framework/backends/cpu/cpu_kernels.h"

namespace heddle {

namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const BackendOptions& options)
      : threads_(options.threads),
        elementwise_(cpu::make_cpu_elementwise()),
        linear_algebra_(cpu::make_cpu_linear_algebra(options.threads)),
        convolution_(cpu::make_cpu_convolution(options.threads, options.winograd)),
        rows_(cpu::make_cpu_rows()),
        head_(cpu::make_cpu_head()),
        class_rows_(cpu::make_cpu_class_rows()),
        training_(cpu::make_cpu_training()) {}

  std::string_view name() const override { return "cpu"; }
  bool has_data() const override { return true; }

  void* allocate(std::int64_t bytes) override { return allocator_.allocate(bytes); }
  void deallocate(void* address, std::int64_t bytes) override { allocator_.deallocate(address, bytes); }
  std::int64_t reserved_bytes() const override { return allocator_.reserved_bytes(); }

  void copy_from_host(void* device, std::span<const std::byte> host) override {
    copy(device, host.data(), static_cast<std::int64_t>(host.size()));
  }
  void copy_to_host(std::span<std::byte> host, const void* device) override {
    copy(host.data(), device, static_cast<std::int64_t>(host.size()));
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    if (bytes > 0) std::memmove(to, from, static_cast<std::size_t>(bytes));
  }
  std::shared_ptr<const Mark> mark() override { return nullptr; }
  void wait_for(const Mark* /*mark*/) override {}
  void synchronize() override {}
  void settle() noexcept override {}
  void enter_thread() override { omp_set_num_threads(threads_); }

  PlannedWork work() const override { return {}; }
  void repeat(const PlannedWork& /*since*/, std::int64_t /*times*/) override {}

  const ElementwiseKernels& elementwise() const override { return *elementwise_; }
  const LinearAlgebraKernels& linear_algebra() const override { return *linear_algebra_; }
  const ConvolutionKernels& convolution() const override { return *convolution_; }
  const RowKernels& rows() const override { return *rows_; }
  const HeadKernels& head() const override { return *head_; }
  const ClassRowKernels& class_rows() const override { return *class_rows_; }
  const TrainingKernels& training() const override { return *training_; }

 private:
  int threads_;
  cpu::Allocator allocator_;
  std::unique_ptr<ElementwiseKernels> elementwise_;
  std::unique_ptr<LinearAlgebraKernels> linear_algebra_;
  std::unique_ptr<ConvolutionKernels> convolution_;
  std::unique_ptr<RowKernels> rows_;
  std::unique_ptr<HeadKernels> head_;
  std::unique_ptr<ClassRowKernels> class_rows_;
  std::unique_ptr<TrainingKernels> training_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

}  // namespace heddle
