// The cuda backend's matrix products.
#pragma once

#include "framework/backends/cuda/device/context.h"
#include "framework/backends/cuda/linear_algebra/cublas_products.h"
#include "framework/kernels/linear_algebra.h"

namespace heddle::cuda {

class CudaLinearAlgebra final : public LinearAlgebraKernels {
 public:
  explicit CudaLinearAlgebra(const Context& context) : context_(context), products_(context) {}

  void gemm(const MatrixProduct& product, Tensor& c, Tensor& workspace) const override;
  std::int64_t gemm_workspace(const MatrixProduct& product, const Tensor& c) const override;
  bool is_bf16_fast() const override;
  std::int64_t packed_bytes(std::int64_t m, const Tensor& b, bool transpose_b) const override;
  void pack(std::int64_t m, const Tensor& b, bool transpose_b, Tensor& packed) const override;
  void packed_gemm(const Tensor& a, const Tensor& packed, double beta, Tensor& c, Tensor& workspace) const override;
  std::int64_t packed_gemm_workspace(const Tensor& a, double beta, const Tensor& c) const override;

 private:
  const Context& context_;
  mutable CublasProducts products_;
};

}  // namespace heddle::cuda
