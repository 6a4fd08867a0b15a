#include "framework/kernels/convolution.h"

#include "framework/backends/plan/context.h"

namespace heddle::plan {

namespace {

double flops(const ConvolutionGeometry& g) {
  const std::int64_t elements = g.batch * g.output.height * g.output.width * g.out_channels;
  const std::int64_t products = g.kernel.height * g.kernel.width * (g.in_channels / g.groups);
  return 2 * static_cast<double>(elements) * static_cast<double>(products);
}

}  // namespace

}  // namespace heddle::plan

namespace heddle {

template <>
ConvolutionNeeds ConvolutionKernelsOn<plan::Context>::convolution_needs(const ConvolutionGeometry& g,
                                                                        ConvolutionPart part, DType dtype) const {
  return context_.needs->convolution(g, part, dtype);
}

template <>
void ConvolutionKernelsOn<plan::Context>::pack_weight(const ConvolutionGeometry& /*g*/, ConvolutionPart /*part*/,
                                                      const Tensor& weight, Tensor& packed) const {
  context_.counter.kernel(0, weight, packed);
}

template <>
void ConvolutionKernelsOn<plan::Context>::convolution_forward(const ConvolutionGeometry& g, const Tensor& x,
                                                              const Tensor& weight, const Tensor& bias, Tensor& y,
                                                              Tensor& /*workspace*/) const {
  context_.counter.kernel(plan::flops(g), x, weight, y);
  context_.counter.add_bias(bias, y);
}

template <>
void ConvolutionKernelsOn<plan::Context>::convolution_backward_input(const ConvolutionGeometry& g, const Tensor& dy,
                                                                     const Tensor& weight, Tensor& dx,
                                                                     Tensor& /*workspace*/) const {
  context_.counter.kernel(plan::flops(g), dy, weight, dx);
}

template <>
void ConvolutionKernelsOn<plan::Context>::convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x,
                                                                      const Tensor& dy, bool /*adds*/, Tensor& dweight,
                                                                      Tensor& /*packed*/, Tensor& /*workspace*/) const {
  context_.counter.kernel(plan::flops(g), x, dy, dweight);
}

template <>
std::vector<ChosenConvolution> ConvolutionKernelsOn<plan::Context>::chosen_convolutions() const {
  return {};
}

}  // namespace heddle
