// The cuda backend's convolutions.
#pragma once

#include <set>
#include <vector>

#include "framework/backends/cuda/convolution/cudnn_convolution.h"
#include "framework/backends/cuda/device/context.h"
#include "framework/kernels/convolution.h"

namespace heddle::cuda {

class CudaConvolution final : public ConvolutionKernels {
 public:
  explicit CudaConvolution(const Context& context) : context_(context), cudnn_(context) {}

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
  /// Returns whether the bias, if there is one, was added too.
  bool run(const ConvolutionGeometry& g, ConvolutionPart part, const Tensor& x, const Tensor& weight,
           const Tensor& bias, const Tensor& y, const Tensor& workspace) const;

  const Context& context_;
  mutable CudnnConvolutions cudnn_;
  mutable std::set<ConvolutionCase> plain_;  // what cuDNN has nothing for, or whose operands it does not read
};

}  // namespace heddle::cuda
