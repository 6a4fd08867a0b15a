#include "layers/linear.h"

#include <cmath>

#include "framework/ops/linear.h"
#include "framework/ops/shape.h"

namespace heddle {

Linear::Linear(Construction& construction, const std::string& name, const LinearOptions& options) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(options.in));
  weight_ = make_parameter(construction, name + ".weight", {options.out, options.in},
                           options.deviation ? Initial::normal(*options.deviation) : Initial::uniform(bound));
  if (options.bias)
    bias_ =
        make_parameter(construction, name + ".bias", {options.out},
                       options.deviation ? Initial::constant(0) : Initial::uniform(bound), {.is_norm_or_bias = true});
}

Variable Linear::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  const Variable& x = inputs[0];
  return linear(reshape(x, {x.shape()[0], weight_.value.shape()[1]}), weight_.variable,
                bias_ ? bias_->variable : Variable());
}

std::vector<Parameter*> Linear::parameters() {
  if (bias_) return {&weight_, &*bias_};
  return {&weight_};
}

}  // namespace heddle
