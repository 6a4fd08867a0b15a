// Backbones: makes a model that ends in an embedding [n, embedding] from a configuration and the size of the images.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "layers/stages/stage_balance.h"
#include "models/layer_list.h"

namespace heddle {

class Describer;

/// Each has a row in the table of models.
enum class ModelType {
  mlp,
  resnet18,
  resnet34,
  resnet50,
  resnext,
  vgg11,
  vgg13,
  vgg16,
  vgg19,
  iresnet18,
  iresnet34,
  iresnet50,
  iresnet100,
  mobilefacenet,
  vit_t,
  vit_s,
  vit_b,
  vit_l,
  vit,
  vit_b_16,
  layers
};

/// The first layers of a ResNet: 7 x 7 with stride 2 and max pooling for large images, 3 x 3 with stride 1 for small
/// ones.
enum class Stem { imagenet, small };

/// The placement of some layers.
struct PlacementConfig {
  std::string layers;  // a name, in which `*` stands for any text
  Parallel parallel = Parallel::data;
  std::optional<Axis> over{};       // dp or tp; if empty: tp if the mesh has several ranks there, else dp
  std::optional<Parallel> other{};  // along the other of these axes; if empty: data, or as the neighbours
  bool operator==(const PlacementConfig&) const = default;
};

/// The defaults are torchvision's resnext50_32x4d.
struct ResnextConfig {
  std::vector<std::int64_t> blocks{3, 4, 6, 3};  // number in each stage
  std::int64_t cardinality = 32;                 // groups of the 3 x 3 convolutions
  std::int64_t width = 4;  // channels per group in the first stage; they double from stage to stage
};

struct VggConfig {
  bool norms = false;                            // batch norm after each convolution
  std::vector<std::int64_t> hidden{4096, 4096};  // linear layers before the last
};

/// The defaults are InsightFace's `mbf`; scale 1 is the paper's network.
struct MobileFaceNetConfig {
  std::vector<std::int64_t> blocks{1, 4, 6, 2};  // number of residual blocks in each stage
  std::int64_t scale = 2;                        // the blocks have 64 and 128 channels times this
};

/// A vision transformer. The sizes are those of type `vit`; the others have those of their names.
struct VitConfig {
  std::int64_t features = 256;  // of a token
  std::int64_t blocks = 12;
  std::int64_t heads = 8;
  std::int64_t patch = 9;        // height and width of the pixels of a token
  bool qkv_bias = false;         // whether queries, keys and values have biases
  double attention_dropout = 0;  // AttentionOptions::dropout of every block
  double drop_path = 0.1;        // of the last block; it rises linearly from 0
  double mask_ratio = 0;         // share of the tokens that training leaves out of the blocks
  bool class_token = false;      // the embedding is computed from a class token, not from all tokens
};

/// How the layers are divided into pipeline stages.
struct StagesConfig {
  std::vector<std::int64_t> balance{};  // number of weighted layers in each stage
  /// What is divided evenly. If empty: the balance or the stages that layers name decide if there are any, else the
  /// time.
  std::optional<BalanceBy> by{};
};

struct ModelConfig {
  ModelType type = ModelType::resnet18;
  std::int64_t embedding = 512;
  std::vector<std::int64_t> hidden{256};  // mlp
  Stem stem = Stem::imagenet;             // resnet, resnext
  bool embedding_norm = false;  // mlp, resnet, resnext, vit_b_16: batch norm in place of the last linear layer's bias
  double dropout = 0;           // before the last linear layer
  bool synchronized_norms = false;  // batch norms share statistics over dp
  ResnextConfig resnext{};
  VggConfig vgg{};
  MobileFaceNetConfig mobilefacenet{};
  VitConfig vit{};
  std::vector<LayerConfig> layers{};
  std::vector<PlacementConfig> placements{};
  StagesConfig stages{};
  std::string weights{};       // a safetensors file that the training starts from
  bool weights_strict = true;  // it has all tensors of the model, and no others
};

void describe_model(Describer& d, ModelConfig& config);

/// The model takes images [n, height, width, channels] and gives embeddings [n, d]. d is the configured size, or, if
/// the layers are written out, the size that the last one gives. InputError if the images are too small for the model.
ModelSpec make_model(const ModelConfig& config, const ImageShape& image);
/// Cuts a model into this number of stages; by default so that the estimated times are most even. `loads_of` is called
/// for the loads of the layers if they decide. A single stage has all layers, whatever the configuration says, so that
/// a study can compare with it. InputError if the configuration does not fit.
StageCut make_cut(const ModelSpec& model, const StagesConfig& config, int stages,
                  const std::function<StageLoads(BalanceBy)>& loads_of);
/// The size d of the embeddings that a model gives.
inline std::int64_t embedding_size(const ModelSpec& model) {
  return model.sample(model.last_value())[0];
}

/// The part of an image that a model reads, from its upper left corner: as in InsightFace and torchvision, a vision
/// transformer does not read pixels that do not fill a patch.
ImageShape pixels_read(const ModelConfig& config, const ImageShape& image);

// The families of models.
ModelSpec make_mlp(const ModelConfig& config, const ImageShape& image);
/// He et al. 2016, in torchvision's form and with its parameter names.
ModelSpec make_resnet(const ModelConfig& config, const ImageShape& image);
/// Xie et al. 2017, in torchvision's form and with its parameter names.
ModelSpec make_resnext(const ModelConfig& config, const ImageShape& image);
/// Simonyan and Zisserman 2015, in torchvision's form and with its parameter names; the last linear layer gives the
/// embedding. torchvision averages the features to 7 x 7, ours are what the image gives: 7 x 7 from 224 x 224.
ModelSpec make_vgg(const ModelConfig& config, const ImageShape& image);
/// InsightFace's improved ResNet for faces, with its parameter names.
ModelSpec make_iresnet(const ModelConfig& config, const ImageShape& image);
/// Chen et al. 2018, in InsightFace's form and with its parameter names.
ModelSpec make_mobilefacenet(const ModelConfig& config, const ImageShape& image);
/// InsightFace's vision transformer for faces (Dosovitskiy et al. 2021; An et al. 2022), with its parameter names. The
/// embedding is computed from all tokens, or with `class_token` from that token alone.
ModelSpec make_vit(const ModelConfig& config, const ImageShape& image);
/// The vision transformer of Dosovitskiy et al. 2021 with a class token, in torchvision's form and with its parameter
/// names; its last linear layer gives the embedding. It reads the sizes and attention_dropout of `vit`.
ModelSpec make_torchvision_vit(const VitConfig& vit, const ModelConfig& config, const ImageShape& image);

/// The deviation of initial weights [out, .., kernel, kernel] by PyTorch's `kaiming_normal_(mode="fan_out")`, in which
/// the groups of a convolution do not count. A linear layer has a kernel of 1.
double kaiming_deviation(std::int64_t out, std::int64_t kernel);

/// Appends the end that most families have: dropout, the last linear layer and the norm `features`, as configured.
void append_embedding(ModelSpec& model, const ModelConfig& config, std::int64_t in, const std::string& last = "fc");

}  // namespace heddle
