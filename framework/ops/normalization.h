// Batch norm, layer norm and L2 normalisation.
#pragma once

#include "framework/autograd.h"
#include "framework/kernels/convolution.h"

namespace heddle {

/// What follows a batch norm in the same pass over memory: y = activation(norm(x) + residual).
struct NormEpilogue {
  NormActivation activation = NormActivation::none;
  Variable slope{};     // prelu: [C]
  Variable residual{};  // like x, or none; with relu or no activation only
};

/// Normalises each channel (last dimension) of x by its own mean and biased variance over all other dimensions
/// (Ioffe and Szegedy 2015). gamma and beta [C], either may be none. `moments` receives [2, C]: means and sums of
/// squared deviations, of the compute type. InputError if x has fewer than two values a channel (none at all is legal).
Variable batch_norm(const Variable& x, const Variable& gamma, const Variable& beta, double epsilon,
                    const NormEpilogue& epilogue, Tensor& moments);
/// The same with given statistics [C], which are constants.
Variable batch_norm_inference(const Variable& x, const Tensor& mean, const Tensor& variance, const Variable& gamma,
                              const Variable& beta, double epsilon, const NormEpilogue& epilogue);

/// Over the last dimension (Ba, Kiros and Hinton 2016); gamma and beta [C] of the compute type, either may be none.
Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, double epsilon);

/// Rows of unit length: x / max(|x|, epsilon) over the last dimension.
Variable l2_normalize(const Variable& x, double epsilon = 1e-12);

}  // namespace heddle
