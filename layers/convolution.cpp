#include "layers/convolution.h"

#include <cmath>

namespace heddle {

Convolution::Convolution(Construction& construction, const std::string& name, const ConvolutionLayerOptions& options)
    : options_{.stride = {options.stride, options.stride},
               .padding = {options.padding, options.padding},
               .dilation = {options.dilation, options.dilation},
               .groups = options.groups} {
  const auto fan_out = static_cast<double>(options.out * options.kernel * options.kernel / options.groups);
  weight_ = make_parameter(construction, name + ".weight",
                           {options.out, options.kernel, options.kernel, options.in / options.groups},
                           Initial::normal(options.deviation.value_or(std::sqrt(2.0 / fan_out))));
  if (options.bias)
    bias_ =
        make_parameter(construction, name + ".bias", {options.out}, Initial::constant(0), {.is_norm_or_bias = true});
}

Variable Convolution::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  return conv2d(inputs[0], weight_.variable, bias_ ? bias_->variable : Variable(), options_);
}

std::vector<Parameter*> Convolution::parameters() {
  if (bias_) return {&weight_, &*bias_};
  return {&weight_};
}

}  // namespace heddle
