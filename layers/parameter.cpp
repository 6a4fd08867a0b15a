#include "layers/parameter.h"

#include "framework/device.h"

namespace heddle {

namespace {

/// Draws what the rank holds, element by element of the whole.
void draw(Tensor& value, const ParameterPart& part, const DrawKey& key, const Initial& initial) {
  if (initial.kind == Initial::Kind::constant) return value.fill(initial.a);
  const TrainingKernels& kernels = value.device().backend().training();
  const Tensor flat = value.reshape({value.numel()});
  for_each_run(part, [&](const ElementRun& run) {
    Tensor elements = flat.rows(run.held, run.held + run.count);
    if (initial.kind == Initial::Kind::normal)
      kernels.fill_normal(elements, key, run.whole, initial.a, initial.b);
    else
      kernels.fill_uniform(elements, key, run.whole, initial.a, initial.b);
  });
}

}  // namespace

Parameter make_parameter(Construction& construction, std::string name, const ParameterPart& part,
                         const Initial& initial, const ParameterOptions& options) {
  const MemoryScope scope(construction.device, Category::parameters);
  Tensor value = Tensor::empty(construction.device, part.held_shape(), construction.dtype);
  draw(value, part, {construction.key, Purpose::initial_weights, 0, construction.next_stream++}, initial);
  auto gradient = std::make_shared<Accumulator>(Category::gradients);
  Variable variable = options.trainable ? Variable::parameter(value, gradient) : Variable(value);
  return {.name = std::move(name),
          .part = part,
          .value = std::move(value),
          .gradient = std::move(gradient),
          .variable = std::move(variable),
          .is_norm_or_bias = options.is_norm_or_bias,
          .trainable = options.trainable};
}

Buffer make_buffer(Construction& construction, std::string name, const ParameterPart& part, double value) {
  const MemoryScope scope(construction.device, Category::parameters);
  return {std::move(name), part,
          Tensor::full(construction.device, part.held_shape(), compute_dtype(construction.dtype), value)};
}

}  // namespace heddle
