#include "framework/backends/plan/convolution.h"

namespace heddle::plan {

namespace {

std::int64_t flops(const ConvolutionGeometry& g) {
  return 2 * g.batch * g.output.height * g.output.width * g.out_channels * g.kernel.height * g.kernel.width *
         (g.in_channels / g.groups);
}

}  // namespace

ConvolutionNeeds PlanConvolution::convolution_needs(const ConvolutionGeometry& g, ConvolutionPart part,
                                                    DType dtype) const {
  return needs_.convolution(g, part, dtype);
}

void PlanConvolution::pack_weight(const ConvolutionGeometry& /*g*/, ConvolutionPart /*part*/, const Tensor& weight,
                                  Tensor& packed) const {
  counter_.kernel(0, weight, packed);
}

void PlanConvolution::convolution_forward(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight,
                                          const Tensor& bias, Tensor& y, Tensor& /*workspace*/) const {
  counter_.kernel(flops(g), x, weight, y);
  counter_.add_bias(bias, y);
}

void PlanConvolution::convolution_backward_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight,
                                                 Tensor& dx, Tensor& /*workspace*/) const {
  counter_.kernel(flops(g), dy, weight, dx);
}

void PlanConvolution::convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x, const Tensor& dy,
                                                  bool /*adds*/, Tensor& dweight, Tensor& /*packed*/,
                                                  Tensor& /*workspace*/) const {
  counter_.kernel(flops(g), x, dy, dweight);
}

std::vector<ChosenConvolution> PlanConvolution::chosen_convolutions() const {
  return {};
}

}  // namespace heddle::plan
