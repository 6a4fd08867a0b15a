// Backbones: from a configuration and an image size to a model that ends in an embedding [n, embedding].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/model_description.h"
#include "models/image_shape.h"

namespace heddle {

class Describer;

/// One row of the model table each; `model_type_names` gives their names in this order.
enum class ModelType { mlp, resnet18, resnet34, resnet50, iresnet18, iresnet34, iresnet50, iresnet100 };

/// The axis over which a layer is placed; automatic: tp if the mesh has several ranks there, else dp.
enum class AxisChoice { automatic, dp, tp };

/// How a ResNet begins: 7 x 7 with stride 2 and max pooling for large images, 3 x 3 with stride 1 for small ones.
enum class Stem { imagenet, small };

/// Where some layers are placed.
struct PlacementConfig {
  std::string layers;  // a name, in which `*` stands for any text
  Parallel parallel = Parallel::data;
  AxisChoice over = AxisChoice::automatic;
};

struct ModelConfig {
  ModelType type = ModelType::resnet18;
  std::int64_t embedding = 512;
  std::vector<std::int64_t> hidden{256};  // mlp
  Stem stem = Stem::imagenet;             // resnet
  bool embedding_norm = false;            // resnet, mlp: batch norm in place of the last linear layer's bias
  double dropout = 0;                     // before the last linear layer
  bool synchronized_norms = false;        // batch norms share statistics over dp
  std::vector<PlacementConfig> placements{};
};

void describe_model(Describer& d, ModelConfig& config);

/// Takes images [n, height, width, channels]. InputError if they are too small for the model.
ModelDescription make_model(const ModelConfig& config, const ImageShape& image);

// The families, one file each.
ModelDescription make_mlp(const ModelConfig& config, const ImageShape& image);
/// He et al. 2016, in torchvision's form and with its parameter names.
ModelDescription make_resnet(const ModelConfig& config, const ImageShape& image);
/// InsightFace's improved ResNet for faces, with its parameter names.
ModelDescription make_iresnet(const ModelConfig& config, const ImageShape& image);

/// The end that most families have: dropout, the last linear layer `fc`, the norm `features`; each as the
/// configuration says.
void append_embedding(ModelDescription& model, const ModelConfig& config, std::int64_t in);

}  // namespace heddle
