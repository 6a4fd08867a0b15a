// Elementwise operations. Binary ones broadcast as NumPy does and take operands of one dtype.
#pragma once

#include "framework/autograd/autograd.h"

namespace heddle {

Variable add(const Variable& a, const Variable& b);
Variable subtract(const Variable& a, const Variable& b);
Variable multiply(const Variable& a, const Variable& b);
Variable divide(const Variable& a, const Variable& b);
/// factor * x.
Variable scale(const Variable& x, double factor);

Variable relu(const Variable& x);
/// min(max(x, 0), 6) (Krizhevsky 2010; MobileNets).
Variable relu6(const Variable& x);
Variable sigmoid(const Variable& x);
Variable tanh(const Variable& x);
/// x * Phi(x), the exact form.
Variable gelu(const Variable& x);
Variable negate(const Variable& x);
Variable exp(const Variable& x);
Variable log(const Variable& x);
Variable sqrt(const Variable& x);
Variable square(const Variable& x);
/// x [.., C], slope [C] or [1] of the compute type (f64 for f64, else f32): x > 0 ? x : slope * x.
Variable prelu(const Variable& x, const Variable& slope);

/// The same values in another floating dtype; the gradient is cast back.
Variable cast(const Variable& x, DType dtype);
/// `cast` for a weight: reads the copy that `weight_in_type` keeps.
Variable cast_weight(const Variable& weight, DType dtype);
/// The values of a tensor in another dtype; x itself if it has that dtype.
Tensor in_type(const Tensor& x, DType dtype);
/// The same for a weight: the copy is kept with it and made anew where its elements have changed, which is once per
/// step, however many micro-batches read it. Charged to Category::workspace.
Tensor weight_in_type(const Tensor& weight, DType dtype);

}  // namespace heddle
