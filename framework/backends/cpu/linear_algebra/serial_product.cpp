#include "framework/backends/cpu/linear_algebra/serial_product.h"

#include <Eigen/Core>

#include "framework/error.h"

namespace heddle::cpu {

void serial_product(const GemmShape& s, StridedMatrix<const float> a, StridedMatrix<const float> b,
                    StridedMatrix<float> c) {
  const dnnl_status_t status =
      dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, static_cast<float>(s.alpha),
                 a.first, a.stride, b.first, b.stride, static_cast<float>(s.beta), c.first, c.stride);
  if (status != dnnl_success) fail("gemm: oneDNN returned {}", static_cast<int>(status));
}

void serial_product(const GemmShape& s, StridedMatrix<const double> a, StridedMatrix<const double> b,
                    StridedMatrix<double> c) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Operand = Eigen::Map<const Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;
  const Operand left(a.first, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, Eigen::OuterStride<>(a.stride));
  const Operand right(b.first, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, Eigen::OuterStride<>(b.stride));
  Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>> result(c.first, s.m, s.n, Eigen::OuterStride<>(c.stride));
  if (s.beta == 0) {
    result.setZero();
  } else if (s.beta != 1) {
    result *= s.beta;
  }
  if (s.transpose_a && s.transpose_b) {
    result.noalias() += s.alpha * left.transpose() * right.transpose();
  } else if (s.transpose_a) {
    result.noalias() += s.alpha * left.transpose() * right;
  } else if (s.transpose_b) {
    result.noalias() += s.alpha * left * right.transpose();
  } else {
    result.noalias() += s.alpha * left * right;
  }
}

}  // namespace heddle::cpu
