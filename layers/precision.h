// In which types a model computes, and keeps its parameters.
#pragma once

#include "framework/tensors/dtype.h"
#include "framework/tensors/shape.h"

namespace heddle {

/// Either all f32, or all f64; or mixed (Micikevicius et al., "Mixed precision training", ICLR 2018; PyTorch's
/// autocast): activations of 16 bits and parameters of f32, whose 16-bit copies the layers multiply with and whose
/// gradients are summed in f32; or pure: weights of 16 bits, too, stepped with stochastic rounding
/// (framework/scalars/rounding.h).
struct Precision {
  Precision(DType type = DType::f32)  // NOLINT(google-explicit-constructor): `f32` reads as what it is
      : activations(type), weights(compute_dtype(type)) {}
  Precision(DType activation_type, DType weight_type) : activations(activation_type), weights(weight_type) {}

  DType activations;  // and their gradients, also on their way between stages and ranks
  DType weights;      // of convolutions and linear layers, their gradients and the optimizer's state of them

  /// All else: biases, norms, slopes with gradients and state, statistics, and the head with its embeddings.
  DType wide() const { return compute_dtype(activations); }
  DType of_parameter(const Shape& whole) const { return whole.rank() > 1 ? weights : wide(); }
};

}  // namespace heddle
