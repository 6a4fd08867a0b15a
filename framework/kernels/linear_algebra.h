// Matrix products.
#pragma once

#include "framework/tensor.h"

namespace heddle {

class LinearAlgebraKernels {
 public:
  virtual ~LinearAlgebraKernels() = default;

  /// c = alpha * op(a) * op(b) + beta * c, op transposes where asked; a, b, c are matrices of one floating dtype,
  /// 16-bit ones accumulate in f32. beta = 0 does not read c. `workspace`: see gemm_workspace; undefined if 0 bytes.
  virtual void gemm(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, double alpha, double beta,
                    Tensor& c, Tensor& workspace) const = 0;
  /// Bytes that this product needs.
  virtual std::int64_t gemm_workspace(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                                      double alpha, double beta, const Tensor& c) const = 0;
};

}  // namespace heddle
