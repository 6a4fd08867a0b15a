// Backbones: from a configuration and an image size to a model that ends in an embedding [n, embedding].
#pragma once

#include <cstdint>
#include <vector>

#include "layers/model.h"
#include "models/image_shape.h"

namespace heddle {

class Describer;

/// One row of the model table each; `model_type_names` gives their names in this order.
enum class ModelType { mlp, resnet18, resnet34, resnet50, iresnet18, iresnet34, iresnet50, iresnet100 };

/// How a ResNet begins: 7 x 7 with stride 2 and max pooling for large images, 3 x 3 with stride 1 for small ones.
enum class Stem { imagenet, small };

struct ModelConfig {
  ModelType type = ModelType::resnet18;
  std::int64_t embedding = 512;
  std::vector<std::int64_t> hidden{256};  // mlp
  Stem stem = Stem::imagenet;             // resnet
  bool embedding_norm = false;            // resnet, mlp: batch norm in place of the last linear layer's bias
  double dropout = 0;                     // before the last linear layer
};

void describe_model(Describer& d, ModelConfig& config);

/// Takes images [n, height, width, channels]. InputError if they are too small for the model.
Model make_model(const ModelConfig& config, const ImageShape& image, Construction& construction);

// The families, one file each.
Model make_mlp(const ModelConfig& config, const ImageShape& image, Construction& construction);
/// He et al. 2016, in torchvision's form and with its parameter names.
Model make_resnet(const ModelConfig& config, const ImageShape& image, Construction& construction);
/// InsightFace's improved ResNet for faces, with its parameter names.
Model make_iresnet(const ModelConfig& config, const ImageShape& image, Construction& construction);

}  // namespace heddle
