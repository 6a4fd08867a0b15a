#include "framework/backends/cpu/context.h"

#include "framework/backends/cpu/convolution/primitives.h"
#include "framework/backends/cpu/linear_algebra/primitives.h"

namespace heddle::cpu {

Context::Context(int threads, bool winograd)
    : threads_(threads),
      onednn_(std::make_unique<const OneDnn>(threads)),
      gemms_(std::make_unique<GemmPrimitives>(*onednn_)),
      convolutions_(std::make_unique<ConvolutionPrimitives>(*onednn_, winograd)) {}

Context::~Context() = default;

}  // namespace heddle::cpu
