// Pooling of NHWC images.
#pragma once

#include "framework/autograd/autograd.h"
#include "framework/kernels/pooling.h"

namespace heddle {

struct PoolOptions {
  Extent kernel{};
  Extent stride{};
  Extent padding{0, 0};
  bool count_padding = true;  // average only: padded cells count in the divisor
};

/// InputError if padding exceeds half the kernel or the output would be empty.
Variable max_pool2d(const Variable& x, const PoolOptions& options);
Variable average_pool2d(const Variable& x, const PoolOptions& options);
/// Shape of a pooled x [N, H, W, C], checked in the same way.
Shape pooled_shape(const Shape& x, const PoolOptions& options);
/// [N, H, W, C] -> [N, C].
Variable global_average_pool(const Variable& x);

}  // namespace heddle
