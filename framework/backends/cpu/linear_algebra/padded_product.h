// Products of a transposed left operand, such as a weight gradient, whose operands are copied into rows of another
// length first. oneDNN 2.6 on AVX2 does not copy the operands of a small product, and reads these ones down their
// columns. If rows are a multiple of 2 KiB long, the elements of a column share a few sets of the cache, and the
// product takes up to twice as long. Measured on AVX2 only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/backends/cpu/linear_algebra/primitives.h"

namespace heddle::cpu {

/// Whether a product is faster with copied operands. It depends on the shape and the types alone.
bool is_faster_padded(const GemmShape& shape, GemmTypes types);

/// Bytes of workspace.
std::int64_t padded_needs(GemmPrimitives& primitives, const GemmShape& shape);

/// c = alpha * a^T * b + beta * c for a [k, m], b [k, n], c [m, n], as a sum over blocks of k.
void padded_product(const OneDnn& onednn, GemmPrimitives& primitives, const GemmShape& shape, const float* a,
                    const float* b, float* c, std::byte* workspace);

}  // namespace heddle::cpu
