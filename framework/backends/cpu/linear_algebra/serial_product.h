// Matrix products that run on the calling thread, for kernels whose threads multiply small matrices side by side.
#pragma once

#include "framework/backends/cpu/linear_algebra/primitives.h"

namespace heddle::cpu {

/// c = alpha * op(a) * op(b) + beta * c. Within a parallel region, or in a team of one, one thread computes it. oneDNN
/// packs the operands of f32 into buffers of its own, of at most some megabytes, which are not metered.
void serial_product(const GemmShape& shape, const float* a, const float* b, float* c);
void serial_product(const GemmShape& shape, const double* a, const double* b, double* c);

}  // namespace heddle::cpu
