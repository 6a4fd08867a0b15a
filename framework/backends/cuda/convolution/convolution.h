// What the cuda backend's convolution kernels consist of besides cuDNN, a file each. The arguments are those of
// ConvolutionKernels.
#pragma once

#include "framework/backends/cuda/device/context.h"
#include "framework/kernels/convolution.h"

namespace heddle::cuda {

/// Of any type and geometry with something to multiply: for what cuDNN has nothing for. Writes y, x or the weight, as
/// the part says.
void plain_convolution(const Context& context, const ConvolutionGeometry& g, ConvolutionPart part, const Tensor& x,
                       const Tensor& weight, const Tensor& y);

void moments(const Context& context, const Tensor& x, Tensor& moments);
void normalize(const Context& context, const Tensor& x, const Tensor& mean, const Tensor& inverse_deviation,
               const Tensor& gamma, const Tensor& beta, const Tensor& residual, NormActivation activation,
               const Tensor& slope, Tensor& y);
void normalize_backward_sums(const Context& context, const Tensor& x, const Tensor& mean,
                             const Tensor& inverse_deviation, const Tensor& gamma, const Tensor& beta,
                             NormActivation activation, const Tensor& slope, const Tensor& y, const Tensor& dy,
                             Tensor& sums, Tensor& dresidual);
void normalize_backward_input(const Context& context, const Tensor& x, const Tensor& mean,
                              const Tensor& inverse_deviation, const Tensor& gamma, const Tensor& beta,
                              NormActivation activation, const Tensor& slope, const Tensor& dy, const Tensor& sums,
                              double count, Tensor& dx);

void pool(const Context& context, PoolOp op, const PoolGeometry& g, const Tensor& x, Tensor& y, Tensor& choice);
void pool_backward(const Context& context, PoolOp op, const PoolGeometry& g, const Tensor& dy, const Tensor& choice,
                   Tensor& dx);

}  // namespace heddle::cuda
