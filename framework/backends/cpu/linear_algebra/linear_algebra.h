// The cpu backend's matrix products.
#pragma once

#include "framework/backends/cpu/linear_algebra/primitives.h"
#include "framework/kernels/linear_algebra.h"

namespace heddle::cpu {

class CpuLinearAlgebra final : public LinearAlgebraKernels {
 public:
  explicit CpuLinearAlgebra(int threads) : onednn_(threads) {}

  void gemm(const MatrixProduct& product, Tensor& c, Tensor& workspace) const override;
  std::int64_t gemm_workspace(const MatrixProduct& product, const Tensor& c) const override;
  bool is_bf16_fast() const override;
  std::int64_t packed_bytes(std::int64_t m, const Tensor& b, bool transpose_b) const override;
  void pack(std::int64_t m, const Tensor& b, bool transpose_b, Tensor& packed) const override;
  void packed_gemm(const Tensor& a, const Tensor& packed, double beta, Tensor& c, Tensor& workspace) const override;
  std::int64_t packed_gemm_workspace(const Tensor& a, double beta, const Tensor& c) const override;

 private:
  const GemmPrimitive& packed_product(const GemmShape& shape, DType dtype) const;
  void multiply(const GemmShape& s, const Tensor& a, const Tensor& b, Tensor& c, void* scratch) const;
  void run(const GemmPrimitive& product, const void* a, const void* b, void* c, void* scratch) const;
  void gemm_widened(const GemmShape& s, const Tensor& a, const Tensor& b, Tensor& c, std::byte* scratch) const;

  OneDnn onednn_;
  mutable GemmPrimitives primitives_{onednn_};
};

}  // namespace heddle::cpu
