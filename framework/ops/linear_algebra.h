// Matrix products and the linear layer's operation.
#pragma once

#include "framework/autograd/autograd.h"

namespace heddle {

/// op(a) * op(b) of two matrices, op transposes where asked.
Variable matmul(const Variable& a, const Variable& b, bool transpose_a = false, bool transpose_b = false);
/// x [.., in], weight [out, in], bias [out] or none -> [.., out].
Variable linear(const Variable& x, const Variable& weight, const Variable& bias);
/// x [.., C] + bias [C]. For partial sums, which the ranks add up afterwards: one rank `adds`, the others return x
/// itself. Either way the gradient of bias is the sum over the rows of the result's, which is the same on all of them.
Variable add_bias(const Variable& x, const Variable& bias, bool adds = true);

/// Without a graph: c = alpha * op(a) * op(b) + beta * c, with the workspace that the backend asks for. c may be f32
/// where a and b have 16 bits. `bias` [columns], of c's type, is added to every row.
void gemm(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, double alpha, double beta, Tensor& c,
          const Tensor& bias = {});

/// The right operand of several products with equally many rows on the left: packed once, in the workspace, if the
/// backend reads it faster so.
class PackedOperand {
 public:
  /// Packs op(b) for this many products; for a single one it is left as it is.
  PackedOperand(const Tensor& b, bool transpose, std::int64_t rows, std::int64_t products);
  /// c = a * op(b) + beta * c. Other numbers of rows are multiplied as `gemm` does.
  void multiply(const Tensor& a, double beta, Tensor& c) const;

 private:
  Tensor b_;
  bool transpose_;
  std::int64_t rows_;
  Tensor packed_;
};

}  // namespace heddle
