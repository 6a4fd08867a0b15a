#include "layers/modules/activation.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "models/models.h"

namespace heddle {

ModelSpec make_mlp(const ModelConfig& config, const ImageShape& image) {
  ModelSpec model(shape_of(image));
  model.then("flatten", Flatten::spec());
  std::int64_t size = image.size();
  int index = 0;
  for (const std::int64_t hidden : config.hidden) {
    const std::string name = fmt::format("layers.{}", index++);
    model.then(name, Linear::spec({.in = size, .out = hidden}));
    model.then(name + ".relu", Activation::spec(ActivationKind::relu));
    size = hidden;
  }
  append_embedding(model, config, size);
  return model;
}

}  // namespace heddle
