// The bias of a product or a convolution, which is added to the sums.
#pragma once

#include "framework/tensors/tensor.h"

namespace heddle::cpu {

/// Adds a bias [n] to every row of y [.., n]. Undefined: there is none.
void add_bias(const Tensor& bias, Tensor& y);

}  // namespace heddle::cpu
