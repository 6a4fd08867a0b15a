#include "framework/kernels/linear_algebra.h"

#include "framework/backends/plan/context.h"

namespace heddle {

namespace plan {

/// The operations of products of k elements each.
static double products(const Tensor& results, std::int64_t k) {
  return 2 * static_cast<double>(results.numel()) * static_cast<double>(k);
}

}  // namespace plan

template <>
void LinearAlgebraKernelsOn<plan::Context>::gemm(const MatrixProduct& product, Tensor& c, Tensor& /*workspace*/) const {
  context_.counter.kernel(plan::products(c, product.k()), product.a, product.b, product.beta == 0 ? Tensor() : c, c);
  context_.counter.add_bias(product.bias, c);
}

template <>
std::int64_t LinearAlgebraKernelsOn<plan::Context>::gemm_workspace(const MatrixProduct& product,
                                                                   const Tensor& c) const {
  return context_.needs->gemm(c.shape()[0], c.shape()[1], product.k(), product.transpose_a, product.transpose_b,
                              product.alpha, product.beta, product.a.dtype(), c.dtype());
}

template <>
bool LinearAlgebraKernelsOn<plan::Context>::is_bf16_fast() const {
  return context_.needs->is_bf16_fast();
}

template <>
std::optional<double> LinearAlgebraKernelsOn<plan::Context>::product_seconds() const {
  return {};
}

template <>
std::int64_t LinearAlgebraKernelsOn<plan::Context>::packed_bytes(std::int64_t m, const Tensor& b,
                                                                 bool transpose_b) const {
  return context_.needs->packed(m, b.shape()[transpose_b ? 0 : 1], b.shape()[transpose_b ? 1 : 0], b.dtype());
}

template <>
void LinearAlgebraKernelsOn<plan::Context>::pack(std::int64_t /*m*/, const Tensor& b, bool /*transpose_b*/,
                                                 Tensor& packed) const {
  context_.counter.kernel(0, b, packed);
}

template <>
void LinearAlgebraKernelsOn<plan::Context>::packed_gemm(const Tensor& a, const Tensor& packed, double beta, Tensor& c,
                                                        Tensor& /*workspace*/) const {
  context_.counter.kernel(plan::products(c, a.shape()[1]), a, packed, beta == 0 ? Tensor() : c, c);
}

template <>
std::int64_t LinearAlgebraKernelsOn<plan::Context>::packed_gemm_workspace(const Tensor& a, double beta,
                                                                          const Tensor& c) const {
  return context_.needs->packed_gemm(c.shape()[0], c.shape()[1], a.shape()[1], beta, c.dtype());
}

}  // namespace heddle
