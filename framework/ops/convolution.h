// Convolution of NHWC images.
#pragma once

#include "framework/autograd/autograd.h"
#include "framework/kernels/convolution.h"

namespace heddle {

struct ConvolutionOptions {
  Extent stride{};
  Extent padding{0, 0};
  Extent dilation{};
  std::int64_t groups = 1;
};

/// The height or width of the output; 0 if the kernel does not fit.
std::int64_t convolved_size(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                            std::int64_t dilation);

/// x [N, H, W, in], weight [out, kh, kw, in / groups], bias [out] or none -> [N, H', W', out].
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias, const ConvolutionOptions& options);

}  // namespace heddle
