#include "layers/modules/activation.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "layers/modules/tokens.h"
#include "models/models.h"

namespace heddle {

namespace {

constexpr double initial_deviation = 0.02;      // of all linear layers' weights; biases are 0
constexpr std::int64_t hidden_per_feature = 4;  // of a block's two linear layers
constexpr double feature_epsilon = 2e-5;        // of the norms behind the last linear layers

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

class VitBuilder {
 public:
  VitBuilder(const ImageShape& image, const VitConfig& vit) : model(shape_of(image)), vit_(vit) {
    if (vit.features % vit.heads != 0)
      fail<InputError>("vit: {} features cannot be shared evenly by {} heads", vit.features, vit.heads);
    if (image.height < vit.patch || image.width < vit.patch)
      fail<InputError>("vit: images of {} x {} are smaller than a patch of {} x {}", image.height, image.width,
                       vit.patch, vit.patch);
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
    model.then(name + ".attn", Attention::spec({.heads = vit_.heads}));
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
  model.then("patch_embed.proj", Convolution::spec({.in = image.channels,
                                                    .out = vit.features,
                                                    .kernel = vit.patch,
                                                    .stride = vit.patch,
                                                    .padding = 0,
                                                    .bias = true}));
  model.then("patch_embed", ImageTokens::spec());
  const std::int64_t tokens = model.sample(model.last_value())[0];
  model.then("pos_embed", PositionEmbedding::spec(tokens, vit.features));
  for (std::int64_t block = 0; block < vit.blocks; ++block) {
    const double share = vit.blocks > 1 ? static_cast<double>(block) / static_cast<double>(vit.blocks - 1) : 0;
    model.begin_block();
    builder.block(fmt::format("blocks.{}", block), share * vit.drop_path);
  }
  model.end_blocks();
  builder.norm("norm");
  model.then("flatten", Flatten::spec());
  const auto batch_norm = [&](std::int64_t channels) {
    return BatchNorm::spec(
        {.channels = channels, .epsilon = feature_epsilon, .synchronized = config.synchronized_norms});
  };
  builder.linear("feature.0", tokens * vit.features, vit.features, false);
  model.then("feature.1", batch_norm(vit.features));
  builder.linear("feature.2", vit.features, config.embedding, false);
  model.then("feature.3", batch_norm(config.embedding));
  return std::move(model);
}

}  // namespace heddle
