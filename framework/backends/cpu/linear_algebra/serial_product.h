// Matrix products that run on the calling thread, for kernels whose threads multiply small matrices side by side.
#pragma once

#include "framework/backends/cpu/linear_algebra/primitives.h"

namespace heddle::cpu {

/// A matrix stored by rows, which begin `stride` elements apart.
template <class C>
struct StridedMatrix {
  C* first;
  std::int64_t stride;

  C* row(std::int64_t index) const { return first + index * stride; }
};

/// c = alpha * op(a) * op(b) + beta * c. Within a parallel region, or in a team of one, one thread computes it. oneDNN
/// packs the operands of f32 into buffers of its own, of at most some megabytes, which are not metered.
void serial_product(const GemmShape& shape, StridedMatrix<const float> a, StridedMatrix<const float> b,
                    StridedMatrix<float> c);
void serial_product(const GemmShape& shape, StridedMatrix<const double> a, StridedMatrix<const double> b,
                    StridedMatrix<double> c);

/// The same where nothing lies between the rows.
template <class C>
void serial_product(const GemmShape& shape, const C* a, const C* b, C* c) {
  serial_product(shape, StridedMatrix<const C>{a, shape.transpose_a ? shape.m : shape.k},
                 StridedMatrix<const C>{b, shape.transpose_b ? shape.k : shape.n}, StridedMatrix<C>{c, shape.n});
}

}  // namespace heddle::cpu
