// The cpu backend's convolutions.
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
  std::vector<ChosenConvolution> chosen_convolutions() const override;

 private:
  void run(const ConvolutionGeometry& g, ConvolutionPart part, Tensor x, Tensor weight, Tensor y, const Tensor& packed,
           const Tensor& workspace, bool adds) const;

  OneDnn onednn_;
  mutable ConvolutionPrimitives primitives_;
};

}  // namespace heddle::cpu
