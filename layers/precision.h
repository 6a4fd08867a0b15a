// The types in which a model computes and keeps its parameters.
#pragma once

#include "framework/tensors/dtype.h"
#include "framework/tensors/shape.h"

namespace heddle {

/// Either everything is f32, or everything is f64. Or the precision is mixed (Micikevicius et al., "Mixed precision
/// training", ICLR 2018; PyTorch's autocast): activations have 16 bits and parameters are f32; layers multiply with
/// 16-bit copies of them, and their gradients are summed in f32. Or it is pure: weights have 16 bits, too, and are
/// stepped with stochastic rounding (framework/scalars/rounding.h).
struct Precision {
  Precision(DType type = DType::f32)  // NOLINT(google-explicit-constructor): `f32` reads as what it is
      : activations(type), weights(compute_dtype(type)) {}
  Precision(DType activation_type, DType weight_type) : activations(activation_type), weights(weight_type) {}

  DType activations;  // and of their gradients, also when they are sent between stages and ranks
  /// The type of parameters of several dimensions (weights of convolutions and linear layers, position embeddings,
  /// tokens), of their gradients and of the optimizer's state for them.
  DType weights;

  /// The type of everything else: biases, norms and slopes with their gradients and state, statistics, and the head
  /// with its embeddings.
  DType wide() const { return compute_dtype(activations); }
  DType of_parameter(const Shape& whole) const { return whole.rank() > 1 ? weights : wide(); }
};

}  // namespace heddle
