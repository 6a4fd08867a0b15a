#include "framework/ops/convolution.h"

#include <utility>

#include "framework/error.h"
#include "framework/ops/workspace.h"
#include "framework/tensors/derived.h"
#include "framework/tensors/device.h"

namespace heddle {

std::int64_t convolved_size(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                            std::int64_t dilation) {
  const std::int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

namespace {

Extent output_of(const Extent& in, const Extent& kernel, const ConvolutionOptions& o) {
  return {convolved_size(in.height, kernel.height, o.stride.height, o.padding.height, o.dilation.height),
          convolved_size(in.width, kernel.width, o.stride.width, o.padding.width, o.dilation.width)};
}

ConvolutionGeometry check(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionOptions& o) {
  if (x.shape().rank() != 4 || !is_floating(x.dtype()))
    fail<InputError>("conv2d: expected images [N,H,W,C], got {}", to_string(x));
  if (weight.shape().rank() != 4 || weight.dtype() != x.dtype())
    fail<InputError>("conv2d: expected a {} weight [out,kh,kw,in/groups], got {}", name_of(x.dtype()),
                     to_string(weight));
  if (o.groups < 1 || o.stride.height < 1 || o.stride.width < 1 || o.dilation.height < 1 || o.dilation.width < 1 ||
      o.padding.height < 0 || o.padding.width < 0)
    fail<InputError>("conv2d: stride, dilation and groups must be at least 1 and padding at least 0");
  const Shape& w = weight.shape();
  if (x.shape()[3] != w[3] * o.groups)
    fail<InputError>("conv2d: {} has {} channels, weight {} takes {}", to_string(x), x.shape()[3], to_string(weight),
                     w[3] * o.groups);
  if (w[0] % o.groups != 0)
    fail<InputError>("conv2d: weight {} has {} filters, which {} groups do not divide", to_string(weight), w[0],
                     o.groups);
  if (bias.defined() && (bias.shape() != Shape{w[0]} || bias.dtype() != x.dtype()))
    fail<InputError>("conv2d: expected a bias {}, got {}", to_string(x.dtype(), Shape{w[0]}), to_string(bias));
  ConvolutionGeometry g{.batch = x.shape()[0],
                        .input = {x.shape()[1], x.shape()[2]},
                        .in_channels = x.shape()[3],
                        .output = {},
                        .out_channels = w[0],
                        .kernel = {w[1], w[2]},
                        .stride = o.stride,
                        .padding = o.padding,
                        .dilation = o.dilation,
                        .groups = o.groups};
  g.output = output_of(g.input, g.kernel, o);
  if (g.output.height < 1 || g.output.width < 1)
    fail<InputError>("conv2d: {} is smaller than the kernel of weight {}", to_string(x), to_string(weight));
  return g;
}

/// The weight in the layout that the part wants. Packed copies live as long as the weight and follow its changes.
Tensor packed_weight(const ConvolutionGeometry& g, ConvolutionPart part, const Tensor& weight,
                     const ConvolutionNeeds& needs) {
  if (needs.packed_weight == 0) return weight;
  return derived_from(weight, {needs.layout}, needs.packed_weight, [&](Tensor& packed) {
    weight.device().backend().convolution().pack_weight(g, part, weight, packed);
  });
}

Tensor forward(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const ConvolutionKernels& kernels = x.device().backend().convolution();
  Tensor y = Tensor::empty(x.device(), {g.batch, g.output.height, g.output.width, g.out_channels}, x.dtype());
  const ConvolutionNeeds needs = kernels.convolution_needs(g, ConvolutionPart::forward, x.dtype());
  Tensor workspace = workspace_of(x.device(), needs.workspace);
  kernels.convolution_forward(g, x, packed_weight(g, ConvolutionPart::forward, weight, needs), bias, y, workspace);
  return y;
}

Tensor backward_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight) {
  const ConvolutionKernels& kernels = dy.device().backend().convolution();
  Tensor dx = Tensor::empty(dy.device(), {g.batch, g.input.height, g.input.width, g.in_channels}, dy.dtype());
  const ConvolutionNeeds needs = kernels.convolution_needs(g, ConvolutionPart::backward_input, dy.dtype());
  Tensor workspace = workspace_of(dy.device(), needs.workspace);
  kernels.convolution_backward_input(g, dy, packed_weight(g, ConvolutionPart::backward_input, weight, needs), dx,
                                     workspace);
  return dx;
}

/// Undefined if it was added to `sum`.
Tensor backward_weight(const ConvolutionGeometry& g, const Tensor& x, const Tensor& dy, Tensor sum) {
  const ConvolutionKernels& kernels = dy.device().backend().convolution();
  const ConvolutionNeeds needs = kernels.convolution_needs(g, ConvolutionPart::backward_weight, dy.dtype());
  const Shape shape{g.out_channels, g.kernel.height, g.kernel.width, g.in_channels / g.groups};
  const bool adds = needs.adds && sum.defined() && sum.dtype() == dy.dtype() && sum.shape() == shape;
  Tensor dweight = adds ? std::move(sum) : Tensor::empty(dy.device(), shape, dy.dtype());
  Tensor packed = workspace_of(dy.device(), needs.packed_weight);
  Tensor workspace = workspace_of(dy.device(), needs.workspace);
  kernels.convolution_backward_weight(g, x, dy, adds, dweight, packed, workspace);
  return adds ? Tensor() : dweight;
}

Tensor channel_sums(const Tensor& x) {
  const std::int64_t channels = x.shape().back();
  Tensor sums = Tensor::empty(x.device(), {channels}, x.dtype());
  x.device().backend().reduction().reduce(ReduceOp::sum, x, {1, x.shape().product(0, 3), channels}, sums);
  return sums;
}

}  // namespace

Variable conv2d(const Variable& x_in, const Variable& weight_in, const Variable& bias,
                const ConvolutionOptions& options) {
  const ConvolutionGeometry g = check(x_in.value(), weight_in.value(), bias.value(), options);
  // The input is kept for the weight's gradient, the weight for the input's.
  Tensor x = weight_in.leads().anywhere() ? x_in.value() : Tensor();
  Tensor weight = weight_in.value();
  const Tensor y = forward(g, x_in.value(), weight_in.value(), bias.value());
  return record(y, {x_in, weight_in, bias}, [=](const Tensor& dy, Wanted wanted) mutable {
    Gradients gradients(3);
    if (wanted[0]) gradients[0] = backward_input(g, dy, std::exchange(weight, {}));
    if (wanted[1]) gradients[1] = backward_weight(g, std::exchange(x, {}), dy, wanted.sum(1));
    if (wanted[2]) gradients[2] = channel_sums(dy);
    return gradients;
  });
}

}  // namespace heddle
