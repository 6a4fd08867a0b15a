// Takes the place of the cuda backend in a program that is built without it; framework/cuda.cmake decides and says why.
#include "framework/backends/backend.h"
#include "framework/backends/gpu.h"
#include "framework/error.h"
#include "framework/kernels/needs.h"

namespace heddle {

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& /*options*/) {
  fail<InputError>("device cuda: this program was built without CUDA: {}", *cuda_absence());
}

std::shared_ptr<KernelNeeds> make_cuda_needs(bool /*tf32*/) {
  return std::make_shared<KernelNeeds>();
}

int cuda_gpus() {
  return 0;
}

std::vector<std::pair<std::string, std::string>> cuda_versions() {
  return {};
}

std::optional<std::string> cuda_absence() {
  return HEDDLE_CUDA_LACKS "; where CUDA 12.8 or newer and cuDNN 9 are installed, ./heddle setup cuda builds it in";
}

}  // namespace heddle
