// What convolutions would do.
#pragma once

#include "framework/backends/plan/work_counter.h"
#include "framework/kernels/convolution.h"
#include "framework/kernels/needs.h"

namespace heddle::plan {

class PlanConvolution final : public ConvolutionKernels {
 public:
  PlanConvolution(WorkCounter& counter, KernelNeeds& needs) : counter_(counter), needs_(needs) {}

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
  WorkCounter& counter_;
  KernelNeeds& needs_;
};

}  // namespace heddle::plan
