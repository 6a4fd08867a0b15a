#include "framework/kernels/needs.h"

#include <array>
#include <mutex>

#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/convolution/convolutions.h"
#include "framework/backends/gpu.h"

namespace heddle {

namespace cuda {

namespace {

/// The GPU's own memory that is full is not the planned ranks'.
template <class Ask>
auto asked(const Ask& ask) {
  try {
    return ask();
  } catch (const OutOfMemory& error) {
    fail("plan: the GPU cannot be asked for cuDNN's workspaces: {}", error.what());
  }
}

/// The first GPU's: a machine's are alike.
class Needs final : public KernelNeeds {
 public:
  explicit Needs(bool tf32) : context_(0, tf32) {}

  ConvolutionNeeds convolution(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype) override {
    const std::lock_guard lock(mutex_);
    return asked([&] {
      context_.enter();
      return context_.convolutions().needs({g, part, dtype});
    });
  }

 private:
  std::mutex mutex_;
  Context context_;
};

}  // namespace

}  // namespace cuda

std::shared_ptr<KernelNeeds> make_cuda_needs(bool tf32) {
  if (cuda_gpus() == 0) return std::make_shared<KernelNeeds>();
  static std::mutex mutex;
  static std::array<std::weak_ptr<KernelNeeds>, 2> of_arithmetic;
  const std::lock_guard lock(mutex);
  std::weak_ptr<KernelNeeds>& known = of_arithmetic[tf32 ? 1 : 0];
  std::shared_ptr<KernelNeeds> needs = known.lock();
  if (needs == nullptr) known = needs = cuda::asked([tf32] { return std::make_shared<cuda::Needs>(tf32); });
  return needs;
}

}  // namespace heddle
