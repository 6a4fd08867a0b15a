#include <cmath>

#include "layers/modules/activation.h"
#include "layers/modules/class_token.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "layers/modules/token_masks.h"
#include "layers/modules/tokens.h"
#include "models/models.h"

namespace heddle {

namespace {

constexpr double initial_deviation = 0.02;      // of all linear layers' weights; biases are 0
constexpr std::int64_t hidden_per_feature = 4;  // of a block's two linear layers
constexpr double feature_epsilon = 2e-5;        // of the norms after the last linear layers
constexpr double torchvision_epsilon = 1e-6;    // of torchvision's layer norms

/// The sizes of a type.
VitConfig sized(const ModelConfig& config) {
  VitConfig vit = config.vit;
  const auto set = [&vit](std::int64_t features, std::int64_t blocks) {
    vit.features = features;
    vit.blocks = blocks;
    vit.heads = 8;
  };
  if (config.type == ModelType::vit_t) set(256, 12);
  if (config.type == ModelType::vit_s) set(512, 12);
  if (config.type == ModelType::vit_b) set(512, 24);
  if (config.type == ModelType::vit_l) set(768, 24);
  return vit;
}

void check_sizes(const ImageShape& image, const VitConfig& vit) {
  if (vit.features % vit.heads != 0)
    fail<InputError>("vit: {} features cannot be shared evenly by {} heads", vit.features, vit.heads);
  if (image.height < vit.patch || image.width < vit.patch)
    fail<InputError>("vit: images of {} x {} are smaller than a patch of {} x {}", image.height, image.width, vit.patch,
                     vit.patch);
}

/// Appends the convolution `patches` and the layer that makes its pixels into tokens.
void append_tokens(ModelSpec& model, const ImageShape& image, const VitConfig& vit, const std::string& patches,
                   const std::string& tokens, std::optional<double> deviation = {}) {
  model.then(patches, Convolution::spec({.in = image.channels,
                                         .out = vit.features,
                                         .kernel = vit.patch,
                                         .stride = vit.patch,
                                         .padding = 0,
                                         .bias = true,
                                         .deviation = deviation}));
  model.then(tokens, ImageTokens::spec());
}

/// InsightFace's blocks.
class VitBuilder {
 public:
  VitBuilder(const ImageShape& image, const VitConfig& vit) : model(shape_of(image)), vit_(vit) {
    check_sizes(image, vit);
  }

  void linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias, std::int64_t heads = 0) {
    model.then(name,
               Linear::spec({.in = in, .out = out, .bias = bias, .deviation = initial_deviation, .heads = heads}));
  }
  void norm(const std::string& name) { model.then(name, LayerNorm::spec(vit_.features)); }
  /// Ends a branch that began at the value `start`.
  void sum(const std::string& name, int start, double drop_path) {
    if (drop_path > 0) model.then(name + ".drop_path", DropPath::spec(drop_path));
    model.apply(name + ".sum", Add::spec(), {start, model.last_value()});
  }
  void block(const std::string& name, double drop_path) {
    const std::int64_t features = vit_.features;
    const std::int64_t hidden = hidden_per_feature * features;
    int start = model.last_value();
    norm(name + ".norm1");
    linear(name + ".attn.qkv", features, 3 * features, vit_.qkv_bias, vit_.heads);
    model.then(name + ".attn", Attention::spec({.heads = vit_.heads, .dropout = vit_.attention_dropout}));
    linear(name + ".attn.proj", features, features, true);
    sum(name + ".attn", start, drop_path);
    start = model.last_value();
    norm(name + ".norm2");
    linear(name + ".mlp.fc1", features, hidden, true);
    model.then(name + ".mlp.act", Activation::spec(ActivationKind::relu6));
    linear(name + ".mlp.fc2", hidden, features, true);
    sum(name + ".mlp", start, drop_path);
  }

  ModelSpec model;

 private:
  VitConfig vit_;
};

}  // namespace

ModelSpec make_vit(const ModelConfig& config, const ImageShape& image) {
  const VitConfig vit = sized(config);
  VitBuilder builder(image, vit);
  ModelSpec& model = builder.model;
  append_tokens(model, image, vit, "patch_embed.proj", "patch_embed");
  const std::int64_t tokens = model.sample(model.last_value())[0];
  model.then("pos_embed", PositionEmbedding::spec(tokens, vit.features));
  const TokenMasking masking{.tokens = tokens, .ratio = vit.mask_ratio};
  const bool masks = vit.mask_ratio > 0;
  if (masks) model.then("mask", MaskTokens::spec(masking));
  if (vit.class_token) model.then("cls_token", ClassToken::spec(vit.features));
  for (std::int64_t block = 0; block < vit.blocks; ++block) {
    const double share = vit.blocks > 1 ? static_cast<double>(block) / static_cast<double>(vit.blocks - 1) : 0;
    model.begin_block();
    builder.block(fmt::format("blocks.{}", block), share * vit.drop_path);
  }
  model.end_blocks();
  const auto linear_and_norm = [&](int number, std::int64_t in, std::int64_t out) {
    builder.linear(fmt::format("feature.{}", number), in, out, false);
    model.then(
        fmt::format("feature.{}", number + 1),
        BatchNorm::spec({.channels = out, .epsilon = feature_epsilon, .synchronized = config.synchronized_norms}));
  };
  if (vit.class_token) {
    // The other tokens end here: masked ones need not return, and the norm treats each token by itself.
    model.then("first_token", FirstToken::spec());
    builder.norm("norm");
    linear_and_norm(2, vit.features, config.embedding);
    return std::move(model);
  }
  builder.norm("norm");
  if (masks) model.then("mask_token", RestoreTokens::spec(masking, vit.features));
  model.then("flatten", Flatten::spec());
  linear_and_norm(0, tokens * vit.features, vit.features);
  linear_and_norm(2, vit.features, config.embedding);
  return std::move(model);
}

namespace {

/// Glorot and Bengio's initial weights (2010).
LinearOptions glorot(std::int64_t in, std::int64_t out) {
  return {.in = in, .out = out, .bound = std::sqrt(6.0 / static_cast<double>(in + out))};
}

void append_torchvision_block(ModelSpec& model, const std::string& name, const VitConfig& vit) {
  const std::int64_t features = vit.features;
  const std::int64_t hidden = hidden_per_feature * features;
  int start = model.last_value();
  model.then(name + ".ln_1", LayerNorm::spec(features, torchvision_epsilon));
  LinearOptions parts = glorot(features, 3 * features);
  parts.separator = '_';
  parts.heads = vit.heads;
  model.then(name + ".self_attention.in_proj", Linear::spec(parts));
  model.then(name + ".self_attention", Attention::spec({.heads = vit.heads, .dropout = vit.attention_dropout}));
  model.then(name + ".self_attention.out_proj",
             Linear::spec({.in = features, .out = features, .bound = 1 / std::sqrt(static_cast<double>(features))}));
  model.apply(name + ".self_attention.sum", Add::spec(), {start, model.last_value()});
  start = model.last_value();
  model.then(name + ".ln_2", LayerNorm::spec(features, torchvision_epsilon));
  model.then(name + ".mlp.0", Linear::spec(glorot(features, hidden)));
  model.then(name + ".mlp.1", Activation::spec(ActivationKind::gelu));
  model.then(name + ".mlp.3", Linear::spec(glorot(hidden, features)));
  model.apply(name + ".mlp.sum", Add::spec(), {start, model.last_value()});
}

}  // namespace

ModelSpec make_torchvision_vit(const VitConfig& vit, const ModelConfig& config, const ImageShape& image) {
  check_sizes(image, vit);
  ModelSpec model(shape_of(image));
  const std::int64_t pixels = image.channels * vit.patch * vit.patch;
  append_tokens(model, image, vit, "conv_proj", "tokens", 1 / std::sqrt(static_cast<double>(pixels)));
  model.then("class_token", ClassToken::spec(vit.features));
  const std::int64_t tokens = model.sample(model.last_value())[0];
  model.then("encoder.pos_embedding", PositionEmbedding::spec(tokens, vit.features));
  for (std::int64_t block = 0; block < vit.blocks; ++block) {
    model.begin_block();
    append_torchvision_block(model, fmt::format("encoder.layers.encoder_layer_{}", block), vit);
  }
  model.end_blocks();
  // The other tokens end here, and the norm treats each token by itself.
  model.then("first_token", FirstToken::spec());
  model.then("encoder.ln", LayerNorm::spec(vit.features, torchvision_epsilon));
  append_embedding(model, config, vit.features, "heads.head");
  return model;
}

}  // namespace heddle
