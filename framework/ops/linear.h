// Matrix products and the linear layer's operation.
#pragma once

#include "framework/autograd.h"

namespace heddle {

/// op(a) * op(b) of two matrices, op transposes where asked.
Variable matmul(const Variable& a, const Variable& b, bool transpose_a = false, bool transpose_b = false);
/// x [.., in], weight [out, in], bias [out] or none -> [.., out].
Variable linear(const Variable& x, const Variable& weight, const Variable& bias);
/// x [.., C] + bias [C]. For partial sums, which the ranks add up afterwards: one rank `adds`, the others give back x
/// itself. Either way the gradient of bias is the sum over the rows of the result's, which is the same on all of them.
Variable add_bias(const Variable& x, const Variable& bias, bool adds = true);

/// Without a graph: c = alpha * op(a) * op(b) + beta * c, with the workspace that the backend asks for.
void gemm(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, double alpha, double beta, Tensor& c);

}  // namespace heddle
