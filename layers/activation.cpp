#include "layers/activation.h"

#include "framework/ops/elementwise.h"

namespace heddle {

Variable Activation::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  switch (kind_) {
    case ActivationKind::relu:
      return relu(inputs[0]);
    case ActivationKind::sigmoid:
      return sigmoid(inputs[0]);
    case ActivationKind::tanh:
      return heddle::tanh(inputs[0]);
    case ActivationKind::gelu:
      return gelu(inputs[0]);
  }
  fail("activation: unknown kind {}", static_cast<int>(kind_));
}

PRelu::PRelu(Construction& construction, const std::string& name, std::int64_t channels)
    : slope_(make_parameter(construction, name + ".weight", {channels}, Initial::constant(0.25),
                            {.is_norm_or_bias = true})) {}

Variable PRelu::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  return prelu(inputs[0], slope_.variable);
}

Variable Dropout::forward(std::span<const Variable> inputs, const Pass& pass) {
  const Variable& x = inputs[0];
  if (!pass.training || probability_ == 0) return x;
  DrawKey key = key_;
  key.step = static_cast<std::uint32_t>(pass.step);
  return dropout(x, probability_, key, pass.first_sample * x.shape().product(1, x.shape().rank()));
}

Variable Add::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  return add(inputs[0], inputs[1]);
}

}  // namespace heddle
