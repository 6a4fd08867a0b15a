#include "framework/backends/cpu/context.h"

#include <new>
#include <vector>

#include "framework/backends/cpu/convolution/primitives.h"
#include "framework/backends/cpu/linear_algebra/primitives.h"
#include "framework/backends/cpu/loops/parallel.h"
#include "framework/backends/cpu/onednn/onednn.h"
#include "framework/error.h"

namespace heddle::cpu {

namespace {

/// oneDNN makes the kernels of its products once for the process, at the first product. If it has no memory for them,
/// its second attempt crashes: this first one takes place before ranks compute, and remains the only one.
void make_product_kernels() {
  static const bool are_made = [] {
    require_memory_for_code();
    constexpr dnnl_dim_t n = 32;
    const ThreadTeam alone(1);
    try {
      const std::vector<float> factor(n * n);
      std::vector<float> product(n * n);
      return dnnl::sgemm('N', 'N', n, n, n, 1, factor.data(), n, factor.data(), n, 0, product.data(), n) ==
             dnnl::status::success;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }();
  if (!are_made) fail<OutOfMemory>("cpu: the system has no memory for oneDNN's kernels");
}

}  // namespace

Context::Context(int threads, bool winograd)
    : threads_(threads),
      onednn_(std::make_unique<const OneDnn>(threads)),
      gemms_(std::make_unique<GemmPrimitives>(*onednn_)),
      convolutions_(std::make_unique<ConvolutionPrimitives>(*onednn_, winograd)) {
  make_product_kernels();
}

Context::~Context() = default;

}  // namespace heddle::cpu
