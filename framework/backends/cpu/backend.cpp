// The cpu backend: the kernels of all themes over one rank's allocator and thread team.
#include "framework/backends/backend.h"

#include <cstring>
#include <new>

#include <sys/mman.h>

#include "framework/backends/cpu/allocator.h"
#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/parallel.h"
#include "framework/backends/cpu/loops/thread_team.h"
#include "framework/backends/kernels_on.h"
#include "framework/files/disk_page.h"

namespace heddle {

namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const BackendOptions& options) : context_(options.threads.value_or(1), options.winograd) {}

  std::string_view name() const override { return "cpu"; }
  bool has_data() const override { return true; }

  void* allocate(std::int64_t bytes) override { return allocator_.allocate(bytes); }
  void deallocate(void* address, std::int64_t bytes) override { allocator_.deallocate(address, bytes); }
  std::int64_t reserved_bytes() const override { return allocator_.reserved_bytes(); }

  std::byte* allocate_host(std::int64_t bytes) override {
    const auto size = static_cast<std::size_t>(bytes);
    auto* const host = new (host_alignment(bytes)) std::byte[size];
    // Large pages are written for the first time, and passed to a disk, in a fraction of the time.
    if (bytes >= cpu::huge_page) madvise(host, size, MADV_HUGEPAGE);
    return host;
  }
  void deallocate_host(std::byte* host, std::int64_t bytes) override {
    ::operator delete[](host, host_alignment(bytes));
  }
  void offload(void* device, std::span<std::byte> host) override {
    copy_to_host(host, device);
    deallocate(device, std::ssize(host));
  }
  void* load(std::span<const std::byte> host) override {
    void* const device = allocate(std::ssize(host));
    copy_from_host(device, host);
    return device;
  }
  std::shared_ptr<const Mark> transfers() override { return nullptr; }

  void copy_from_host(void* device, std::span<const std::byte> host) override {
    copy_apart(device, host.data(), std::ssize(host));
  }
  void copy_to_host(std::span<std::byte> host, const void* device) override {
    copy_apart(host.data(), device, std::ssize(host));
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    if (bytes > 0) std::memmove(to, from, static_cast<std::size_t>(bytes));
  }
  std::shared_ptr<const Mark> mark() override { return nullptr; }
  void wait_for(const Mark* /*mark*/) override {}
  void synchronize() override {}
  void settle() noexcept override {}
  void enter_thread() override { cpu::start_thread_team(context_.threads()); }

  PlannedWork work() const override { return {}; }
  void repeat(const PlannedWork& /*since*/, std::int64_t /*times*/) override {}

 private:
  static std::align_val_t host_alignment(std::int64_t bytes) {
    return std::align_val_t(bytes >= cpu::huge_page ? static_cast<std::size_t>(cpu::huge_page) : disk_page);
  }

  /// By all threads, of memory that does not overlap.
  static void copy_apart(void* to, const void* from, std::int64_t bytes) {
    constexpr std::int64_t grain = std::int64_t{1} << 20;
    cpu::parallel_for(bytes, grain, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                  static_cast<std::size_t>(end - begin));
    });
  }

  const BackendKernels& kernels() const override { return kernels_; }

  cpu::Allocator allocator_;
  cpu::Context context_;
  BackendKernels kernels_ = kernels_on(context_);
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

}  // namespace heddle
