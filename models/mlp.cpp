#include "layers/activation.h"
#include "layers/linear.h"
#include "layers/normalization.h"
#include "models/models.h"

namespace heddle {

Model make_mlp(const ModelConfig& config, const ImageShape& image, Construction& construction) {
  Model model;
  std::int64_t size = image.channels * image.height * image.width;
  int index = 0;
  for (const std::int64_t hidden : config.hidden) {
    const std::string name = fmt::format("layers.{}", index++);
    model.then(name, std::make_unique<Linear>(construction, name, LinearOptions{.in = size, .out = hidden}));
    model.then(name + ".relu", std::make_unique<Activation>(ActivationKind::relu));
    size = hidden;
  }
  if (config.dropout > 0) model.then("dropout", std::make_unique<Dropout>(construction, config.dropout));
  model.then("fc", std::make_unique<Linear>(
                       construction, "fc",
                       LinearOptions{.in = size, .out = config.embedding, .bias = !config.embedding_norm}));
  if (config.embedding_norm)
    model.then("features",
               std::make_unique<BatchNorm>(construction, "features", BatchNormOptions{.channels = config.embedding}));
  return model;
}

}  // namespace heddle
