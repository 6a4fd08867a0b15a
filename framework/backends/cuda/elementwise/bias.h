// The bias of a product or a convolution whose library has not added it.
#pragma once

#include "framework/backends/cuda/context.h"
#include "framework/tensors/tensor.h"

namespace heddle::cuda {

/// Adds a bias [n] to every row of y [.., n].
void add_bias(const Context& context, const Tensor& bias, Tensor& y);

}  // namespace heddle::cuda
