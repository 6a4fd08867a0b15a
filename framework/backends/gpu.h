// What communication between GPUs must know of the cuda backend. In a program built without CUDA there are none.
#pragma once

#include "framework/backends/backend.h"

namespace heddle {

/// The GPUs that this process sees; 0 also without a driver, or with one that is too old.
int cuda_gpus();

/// Scratch bytes that a convolution may take on a GPU: algorithms that want more are left out.
inline constexpr std::int64_t max_cudnn_workspace = std::int64_t{512} << 20;

}  // namespace heddle
