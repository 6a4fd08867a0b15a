#include "framework/backends/plan/linear_algebra.h"

namespace heddle::plan {

void PlanLinearAlgebra::gemm(const MatrixProduct& product, Tensor& c, Tensor& /*workspace*/) const {
  counter_.kernel(2 * c.numel() * product.k(), product.a, product.b, product.beta == 0 ? Tensor() : c, c);
  counter_.add_bias(product.bias, c);
}

std::int64_t PlanLinearAlgebra::gemm_workspace(const MatrixProduct& product, const Tensor& c) const {
  return needs_.gemm(c.shape()[0], c.shape()[1], product.k(), product.transpose_a, product.transpose_b, product.alpha,
                     product.beta, product.a.dtype(), c.dtype());
}

bool PlanLinearAlgebra::is_bf16_fast() const {
  return needs_.is_bf16_fast();
}

std::int64_t PlanLinearAlgebra::packed_bytes(std::int64_t m, const Tensor& b, bool transpose_b) const {
  return needs_.packed(m, b.shape()[transpose_b ? 0 : 1], b.shape()[transpose_b ? 1 : 0], b.dtype());
}

void PlanLinearAlgebra::pack(std::int64_t /*m*/, const Tensor& b, bool /*transpose_b*/, Tensor& packed) const {
  counter_.kernel(0, b, packed);
}

void PlanLinearAlgebra::packed_gemm(const Tensor& a, const Tensor& packed, double beta, Tensor& c,
                                    Tensor& /*workspace*/) const {
  counter_.kernel(2 * c.numel() * a.shape()[1], a, packed, beta == 0 ? Tensor() : c, c);
}

std::int64_t PlanLinearAlgebra::packed_gemm_workspace(const Tensor& a, double beta, const Tensor& c) const {
  return needs_.packed_gemm(c.shape()[0], c.shape()[1], a.shape()[1], beta, c.dtype());
}

}  // namespace heddle::plan
