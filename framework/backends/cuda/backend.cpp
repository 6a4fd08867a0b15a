// The cuda backend: the kernels of all themes over one rank's context on a GPU.
#include "framework/backends/backend.h"

#include <cublasLt.h>
#include <cudnn.h>
#include <nvtx3/nvToolsExt.h>

#include "framework/backends/cuda/context.h"
#include "framework/backends/gpu.h"
#include "framework/backends/kernels_on.h"

namespace heddle {

namespace {

using cuda::check;

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const BackendOptions& options) : context_(options.gpu.value_or(0), options.tf32) {}

  std::string_view name() const override { return "cuda"; }
  bool has_data() const override { return true; }

  void* allocate(std::int64_t bytes) override {
    void* address = nullptr;
    check(cudaMallocFromPoolAsync(&address, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), context_.pool(),
                                  context_.stream()),
          "cudaMallocFromPoolAsync");
    return address;
  }
  void deallocate(void* address, std::int64_t /*bytes*/) override {
    // Destructors call this, too: an earlier error is reported by the next call that may throw.
    (void)cudaFreeAsync(address, context_.stream());
  }
  std::int64_t reserved_bytes() const override {
    std::uint64_t bytes = 0;
    check(cudaMemPoolGetAttribute(context_.pool(), cudaMemPoolAttrReservedMemCurrent, &bytes),
          "cudaMemPoolGetAttribute");
    return static_cast<std::int64_t>(bytes);
  }

  std::byte* allocate_host(std::int64_t bytes) override { return context_.moves().allocate_host(bytes); }
  void deallocate_host(std::byte* host, std::int64_t bytes) override { context_.moves().deallocate_host(host, bytes); }
  void offload(void* device, std::span<std::byte> host) override { context_.moves().out(device, host); }
  void* load(std::span<const std::byte> host) override { return context_.moves().back(host); }
  std::shared_ptr<const Mark> transfers() override { return context_.moves().mark(); }

  void copy_from_host(void* device, std::span<const std::byte> host) override { context_.staging().copy(device, host); }
  void copy_to_host(std::span<std::byte> host, const void* device) override {
    copy(host.data(), device, host.size(), cudaMemcpyDeviceToHost);
    context_.synchronize();
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    copy(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice);
  }
  std::shared_ptr<const Mark> mark() override { return context_.events().record(context_.stream()); }
  void wait_for(const Mark* mark) override {
    if (mark == nullptr) return;
    const auto& event = static_cast<const cuda::Event&>(*mark);
    check(cudaStreamWaitEvent(context_.stream(), event.get(), 0), "cudaStreamWaitEvent");
  }
  void synchronize() override { context_.synchronize(); }
  void settle() noexcept override { (void)cudaStreamSynchronize(context_.stream()); }
  void enter_thread() override { context_.enter(); }

  void begin_range(const std::string& name) override { (void)nvtxRangePushA(name.c_str()); }
  void end_range() override { (void)nvtxRangePop(); }

  PlannedWork work() const override { return {}; }
  void repeat(const PlannedWork& /*since*/, std::int64_t /*times*/) override {}

 private:
  const BackendKernels& kernels() const override { return kernels_; }
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, kind, context_.stream()), "cudaMemcpyAsync");
  }

  cuda::Context context_;
  BackendKernels kernels_ = kernels_on(context_);
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

int cuda_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();  // or the next call would report it once more
  return 0;
}

std::vector<std::pair<std::string, std::string>> cuda_versions() {
  // The versions of the headers, because cublasLt is not opened for a run on another device.
  return {{"cuda", fmt::format("{}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10)},
          {"cublasLt", fmt::format("{}.{}", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR)},
          {"cudnn", fmt::format("{}.{}", CUDNN_MAJOR, CUDNN_MINOR)}};
}

std::optional<std::string> cuda_absence() {
  return {};
}

}  // namespace heddle
