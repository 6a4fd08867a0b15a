// In place of the cuda backend where its libraries were not found.
#include "framework/backend.h"
#include "framework/error.h"

namespace heddle {

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& /*options*/) {
  fail<InputError>("device cuda: this program was built without CUDA");
}

std::vector<std::pair<std::string, std::string>> cuda_versions() {
  return {};
}

}  // namespace heddle
