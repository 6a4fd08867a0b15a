// Convolutions by their definition, for what cuDNN has nothing for.
#pragma once

#include "framework/backends/cuda/context.h"
#include "framework/kernels/convolution.h"

namespace heddle::cuda {

/// Any type and geometry with something to multiply. Writes y, x or the weight, as the part says.
void plain_convolution(const Context& context, const ConvolutionGeometry& g, ConvolutionPart part, const Tensor& x,
                       const Tensor& weight, const Tensor& y);

}  // namespace heddle::cuda
