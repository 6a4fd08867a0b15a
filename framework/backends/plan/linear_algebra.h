// What matrix products would do.
#pragma once

#include "framework/backends/plan/work_counter.h"
#include "framework/kernels/linear_algebra.h"
#include "framework/kernels/needs.h"

namespace heddle::plan {

class PlanLinearAlgebra final : public LinearAlgebraKernels {
 public:
  PlanLinearAlgebra(WorkCounter& counter, KernelNeeds& needs) : counter_(counter), needs_(needs) {}

  void gemm(const MatrixProduct& product, Tensor& c, Tensor& workspace) const override;
  std::int64_t gemm_workspace(const MatrixProduct& product, const Tensor& c) const override;
  bool is_bf16_fast() const override;
  std::int64_t packed_bytes(std::int64_t m, const Tensor& b, bool transpose_b) const override;
  void pack(std::int64_t m, const Tensor& b, bool transpose_b, Tensor& packed) const override;
  void packed_gemm(const Tensor& a, const Tensor& packed, double beta, Tensor& c, Tensor& workspace) const override;
  std::int64_t packed_gemm_workspace(const Tensor& a, double beta, const Tensor& c) const override;

 private:
  WorkCounter& counter_;
  KernelNeeds& needs_;
};

}  // namespace heddle::plan
