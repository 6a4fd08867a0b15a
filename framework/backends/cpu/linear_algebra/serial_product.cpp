#include "framework/backends/cpu/linear_algebra/serial_product.h"

#include <Eigen/Core>

#include "framework/error.h"

namespace heddle::cpu {

void serial_product(const GemmShape& s, const float* a, const float* b, float* c) {
  const dnnl_status_t status =
      dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, static_cast<float>(s.alpha), a,
                 s.transpose_a ? s.m : s.k, b, s.transpose_b ? s.k : s.n, static_cast<float>(s.beta), c, s.n);
  if (status != dnnl_success) fail("gemm: oneDNN returned {}", static_cast<int>(status));
}

void serial_product(const GemmShape& s, const double* a, const double* b, double* c) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> left(a, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k);
  const Eigen::Map<const Matrix> right(b, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n);
  Eigen::Map<Matrix> result(c, s.m, s.n);
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
