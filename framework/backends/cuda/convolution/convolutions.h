// A rank's convolutions: by cuDNN, or by their definition where it has nothing for them.
#pragma once

#include <set>
#include <vector>

#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/convolution/cudnn_convolution.h"
#include "framework/kernels/convolution.h"

namespace heddle::cuda {

class Convolutions {
 public:
  explicit Convolutions(const Context& context) : context_(context), cudnn_(context) {}

  ConvolutionNeeds needs(const ConvolutionCase& c) { return cudnn_.needs(c); }
  /// Writes y, x or the weight, as the part says. Returns whether the bias, if there is one, was added too.
  bool run(const ConvolutionGeometry& g, ConvolutionPart part, const Tensor& x, const Tensor& weight,
           const Tensor& bias, const Tensor& y, const Tensor& workspace);
  /// In ascending order.
  std::vector<ChosenConvolution> chosen() const;

 private:
  const Context& context_;
  CudnnConvolutions cudnn_;
  std::set<ConvolutionCase> plain_;  // what cuDNN has nothing for, or whose operands it does not read
};

}  // namespace heddle::cuda
