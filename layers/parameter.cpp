#include "layers/parameter.h"

#include "framework/device.h"

namespace heddle {

Parameter make_parameter(Construction& construction, std::string name, const Shape& shape, const Initial& initial,
                         const ParameterOptions& options) {
  const MemoryScope scope(construction.device, Category::parameters);
  Tensor value = Tensor::empty(construction.device, shape, construction.dtype);
  const DrawKey key{construction.key, Purpose::initial_weights, 0, construction.next_stream++};
  const TrainingKernels& kernels = construction.device.backend().training();
  switch (initial.kind) {
    case Initial::Kind::constant:
      value.fill(initial.a);
      break;
    case Initial::Kind::normal:
      kernels.fill_normal(value, key, options.first_element, initial.a, initial.b);
      break;
    case Initial::Kind::uniform:
      kernels.fill_uniform(value, key, options.first_element, initial.a, initial.b);
      break;
  }
  auto gradient = std::make_shared<Accumulator>(Category::gradients);
  Variable variable = options.trainable ? Variable::parameter(value, gradient) : Variable(value);
  return {.name = std::move(name),
          .value = std::move(value),
          .gradient = std::move(gradient),
          .variable = std::move(variable),
          .holding = options.holding,
          .is_norm_or_bias = options.is_norm_or_bias,
          .trainable = options.trainable};
}

Buffer make_buffer(Construction& construction, std::string name, const Shape& shape, double value) {
  const MemoryScope scope(construction.device, Category::parameters);
  return {std::move(name), Tensor::full(construction.device, shape, compute_dtype(construction.dtype), value)};
}

}  // namespace heddle
