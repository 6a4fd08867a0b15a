// The cpu backend's convolution, normalisation and pooling: one class, in convolution.cpp, normalization.cpp and
// pooling.cpp.
#pragma once

#include "framework/backends/cpu/convolution/primitives.h"
#include "framework/kernels/convolution.h"

namespace heddle::cpu {

class CpuConvolution final : public ConvolutionKernels {
 public:
  CpuConvolution(int threads, bool winograd) : onednn_(threads), primitives_(onednn_, winograd) {}

  ConvolutionNeeds convolution_needs(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype) const override;
  void pack_weight(const ConvolutionGeometry& g, ConvolutionPart part, const Tensor& weight,
                   Tensor& packed) const override;
  void convolution_forward(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           Tensor& y, Tensor& workspace) const override;
  void convolution_backward_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight, Tensor& dx,
                                  Tensor& workspace) const override;
  void convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x, const Tensor& dy, bool adds,
                                   Tensor& dweight, Tensor& packed, Tensor& workspace) const override;
  std::vector<ChosenConvolution> chosen_convolutions() const override { return {}; }

  void moments(const Tensor& x, Tensor& moments) const override;
  void normalize(const Tensor& x, const Tensor& mean, const Tensor& inverse_deviation, const Tensor& gamma,
                 const Tensor& beta, const Tensor& residual, NormActivation activation, const Tensor& slope,
                 Tensor& y) const override;
  void normalize_backward_sums(const Tensor& x, const Tensor& mean, const Tensor& inverse_deviation,
                               const Tensor& gamma, const Tensor& beta, NormActivation activation, const Tensor& slope,
                               const Tensor& y, const Tensor& dy, Tensor& sums, Tensor& dresidual) const override;
  void normalize_backward_input(const Tensor& x, const Tensor& mean, const Tensor& inverse_deviation,
                                const Tensor& gamma, const Tensor& beta, NormActivation activation, const Tensor& slope,
                                const Tensor& dy, const Tensor& sums, double count, Tensor& dx) const override;

  void pool(PoolOp op, const PoolGeometry& g, const Tensor& x, Tensor& y, Tensor& choice) const override;
  void pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy, const Tensor& choice,
                     Tensor& dx) const override;

 private:
  void run(const ConvolutionGeometry& g, ConvolutionPart part, Tensor x, Tensor weight, Tensor y, const Tensor& packed,
           const Tensor& workspace, bool adds) const;

  OneDnn onednn_;
  mutable ConvolutionPrimitives primitives_;
};

}  // namespace heddle::cpu
