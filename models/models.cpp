#include "models/models.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "framework/description/describe.h"
#include "framework/error.h"
#include "layers/modules/activation.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"

namespace heddle {

template <>
inline constexpr auto enum_names<Stem> = enum_table<Stem>({
    {Stem::imagenet, "imagenet"},
    {Stem::small, "small"},
});

static void describe(Describer& d, StagesConfig& config) {
  d.field("balance", config.balance, between(1, 1e6), between(0, 1e6),
          "number of weighted layers (convolutions and linear layers, except those of shortcuts) in each stage");
  choice(d, "by", config.by, "automatic",
         "what is divided evenly among the stages if no balance is given and no layer names its stage; automatic: as "
         "with time");
}

static void describe(Describer& d, PlacementConfig& config) {
  d.field(required("layers"), config.layers, "a layer's name; * stands for any text, as in layer4.*.conv2");
  choice(d, "parallel", config.parallel, "how these layers are split");
  choice(d, "over", config.over, "automatic", std::span<const Axis>(layer_axes),
         "the mesh axis that splits them; automatic: tp if it has several ranks, else dp");
  choice(d, "other", config.other, "automatic",
         "how they are split along the other axis of dp and tp; automatic: data, or as the layers beside them");
}

namespace {

void describe_backbone(Describer& d, ModelConfig& config) {
  d.field("embedding", config.embedding, between(1, 65536), "size of the embedding");
  d.field("dropout", config.dropout, from_to_below(0, 1), "probability of dropout before the last linear layer");
  d.field("synchronized_norms", config.synchronized_norms, "batch norms take statistics over all dp ranks' samples");
}

void describe_embedding_norm(Describer& d, ModelConfig& config) {
  d.field("embedding_norm", config.embedding_norm, "batch norm on the embedding, in place of a bias");
}

void describe_hidden(Describer& d, std::vector<std::int64_t>& hidden) {
  d.field("hidden", hidden, between(1, 1 << 20), between(0, 1024), "sizes of the hidden layers");
}

void describe_blocks(Describer& d, std::vector<std::int64_t>& blocks) {
  d.field("blocks", blocks, between(1, 1000), between(4, 4), "residual blocks of each stage");
}

void describe_mlp(Describer& d, ModelConfig& config) {
  describe_backbone(d, config);
  describe_hidden(d, config.hidden);
  describe_embedding_norm(d, config);
}

void describe_resnet(Describer& d, ModelConfig& config) {
  describe_backbone(d, config);
  choice(d, "stem", config.stem, "imagenet: 7 x 7, stride 2, max pooling; small: 3 x 3, stride 1");
  describe_embedding_norm(d, config);
}

void describe_resnext(Describer& d, ModelConfig& config) {
  describe_resnet(d, config);
  describe_blocks(d, config.resnext.blocks);
  d.field("cardinality", config.resnext.cardinality, between(1, 4096), "groups of the 3 x 3 convolutions");
  d.field("width", config.resnext.width, between(1, 4096),
          "channels per group in the first stage; they double in each stage");
}

void describe_vgg(Describer& d, ModelConfig& config) {
  describe_backbone(d, config);
  d.field("norms", config.vgg.norms, "batch norm after each convolution");
  describe_hidden(d, config.vgg.hidden);
}

void describe_mobilefacenet(Describer& d, ModelConfig& config) {
  describe_backbone(d, config);
  describe_blocks(d, config.mobilefacenet.blocks);
  d.field("scale", config.mobilefacenet.scale, between(1, 64), "the blocks have 64 and 128 channels times this");
}

void describe_vit(Describer& d, ModelConfig& config) {
  d.field("embedding", config.embedding, between(1, 65536), "size of the embedding");
  d.field("synchronized_norms", config.synchronized_norms, "batch norms take statistics over all dp ranks' samples");
  d.field("patch", config.vit.patch, between(1, 1024),
          "height and width of a token's pixels; pixels that do not fill a patch are not read");
  d.field("qkv_bias", config.vit.qkv_bias, "whether queries, keys and values have biases");
  describe_attention_dropout(d, "attention_dropout", config.vit.attention_dropout);
  d.field("drop_path", config.vit.drop_path, from_to_below(0, 1),
          "probability with which the last block's branches are left out for a sample; it rises linearly from 0");
  d.field("mask_ratio", config.vit.mask_ratio, from_to_below(0, 1),
          "share of each sample's tokens that training leaves out of the blocks");
}

void describe_sized_vit(Describer& d, ModelConfig& config) {
  describe_vit(d, config);
  d.field("features", config.vit.features, between(1, 65536), "size of a token");
  d.field("blocks", config.vit.blocks, between(1, 1000), "number of blocks");
  d.field("heads", config.vit.heads, between(1, 65536), "heads of attention, which share the features evenly");
  d.field("class_token", config.vit.class_token, "compute the embedding from a class token, not from all tokens");
}

void describe_torchvision_vit(Describer& d, ModelConfig& config) {
  describe_backbone(d, config);
  describe_embedding_norm(d, config);
  describe_attention_dropout(d, "attention_dropout", config.vit.attention_dropout);
}

constexpr std::int64_t vit_b_16_patch = 16;

ModelSpec make_vit_b_16(const ModelConfig& config, const ImageShape& image) {
  return make_torchvision_vit({.features = 768,
                               .blocks = 12,
                               .heads = 12,
                               .patch = vit_b_16_patch,
                               .attention_dropout = config.vit.attention_dropout},
                              config, image);
}

void describe_layers(Describer& d, ModelConfig& config) {
  list(d, required("layers"), config.layers, between(1, 100000), "the layers, each after those that it reads");
}

ModelSpec make_written_model(const ModelConfig& config, const ImageShape& image) {
  return make_layers(config.layers, image);
}

struct ModelRow {
  std::string_view name;
  std::string_view help;
  ModelSpec (*make)(const ModelConfig&, const ImageShape&);
  void (*describe)(Describer&, ModelConfig&);
};

constexpr auto model_table = enum_table<ModelType, ModelRow>({
    {ModelType::mlp, {"mlp", "linear layers with ReLU between them", make_mlp, describe_mlp}},
    {ModelType::resnet18, {"resnet18", "torchvision's ResNet-18", make_resnet, describe_resnet}},
    {ModelType::resnet34, {"resnet34", "torchvision's ResNet-34", make_resnet, describe_resnet}},
    {ModelType::resnet50, {"resnet50", "torchvision's ResNet-50 (bottleneck blocks)", make_resnet, describe_resnet}},
    {ModelType::resnext,
     {"resnext", "torchvision's ResNeXt, a ResNet of grouped convolutions", make_resnext, describe_resnext}},
    {ModelType::vgg11,
     {"vgg11", "torchvision's VGG-11, without its pooling to 7 x 7, and with dropout 0 by default", make_vgg,
      describe_vgg}},
    {ModelType::vgg13,
     {"vgg13", "torchvision's VGG-13, without its pooling to 7 x 7, and with dropout 0 by default", make_vgg,
      describe_vgg}},
    {ModelType::vgg16,
     {"vgg16", "torchvision's VGG-16, without its pooling to 7 x 7, and with dropout 0 by default", make_vgg,
      describe_vgg}},
    {ModelType::vgg19,
     {"vgg19", "torchvision's VGG-19, without its pooling to 7 x 7, and with dropout 0 by default", make_vgg,
      describe_vgg}},
    {ModelType::iresnet18, {"iresnet18", "InsightFace's IR-18", make_iresnet, describe_backbone}},
    {ModelType::iresnet34, {"iresnet34", "InsightFace's IR-34", make_iresnet, describe_backbone}},
    {ModelType::iresnet50, {"iresnet50", "InsightFace's IR-50", make_iresnet, describe_backbone}},
    {ModelType::iresnet100, {"iresnet100", "InsightFace's IR-100", make_iresnet, describe_backbone}},
    {ModelType::mobilefacenet,
     {"mobilefacenet", "InsightFace's MobileFaceNet (depthwise convolutions)", make_mobilefacenet,
      describe_mobilefacenet}},
    {ModelType::vit_t, {"vit_t", "InsightFace's ViT-T: 12 blocks of 256 features", make_vit, describe_vit}},
    {ModelType::vit_s, {"vit_s", "InsightFace's ViT-S: 12 blocks of 512 features", make_vit, describe_vit}},
    {ModelType::vit_b, {"vit_b", "InsightFace's ViT-B: 24 blocks of 512 features", make_vit, describe_vit}},
    {ModelType::vit_l, {"vit_l", "InsightFace's ViT-L: 24 blocks of 768 features", make_vit, describe_vit}},
    {ModelType::vit, {"vit", "InsightFace's vision transformer with sizes of your own", make_vit, describe_sized_vit}},
    {ModelType::vit_b_16,
     {"vit_b_16", "torchvision's ViT-B/16: 12 blocks of 768 features and a class token", make_vit_b_16,
      describe_torchvision_vit}},
    {ModelType::layers, {"layers", "a network written out layer by layer", make_written_model, describe_layers}},
});

void describe_layout(Describer& d, ModelConfig& config) {
  list(d, "placements", config.placements, between(0, 10000),
       "placements of some layers; the last one that matches a layer decides");
  object(d, "stages", config.stages, "how the layers are divided into pipeline stages");
  d.field("weights", config.weights,
          "a safetensors file with the names and layouts of torchvision or InsightFace, as export and import write it, "
          "that the training starts from; empty: the weights are drawn");
  d.field(
      "weights_strict", config.weights_strict,
      "the file must have every tensor of the model, in its shape, and no others; false: those that fit are loaded, "
      "and the others are drawn");
}

}  // namespace

void describe_model(Describer& d, ModelConfig& config) {
  tagged(d, "model", config.type, model_table, config, "the backbone, from images to embeddings", describe_layout);
}

ImageShape pixels_read(const ModelConfig& config, const ImageShape& image) {
  const auto make = model_table[config.type].make;
  const std::int64_t patch = make == make_vit ? config.vit.patch : make == make_vit_b_16 ? vit_b_16_patch : 1;
  return {.channels = image.channels, .height = image.height / patch * patch, .width = image.width / patch * patch};
}

ModelSpec make_model(const ModelConfig& config, const ImageShape& image) {
  ModelSpec model = model_table[config.type].make(config, image);
  const Shape& embedding = model.sample(model.last_value());
  if (embedding.rank() != 1)
    fail<InputError>(
        "model: expected its last layer to give an embedding [n,d], \"{}\" gives [n,{}]: append a flatten "
        "or a global_average_pool",
        model.applications().back().name, fmt::join(embedding.dimensions(), ","));
  const Shape& in_evaluation = model.evaluation_sample(model.last_value());
  if (in_evaluation != embedding)
    fail<InputError>(
        "model: \"{}\" gives [n,{}] in training and [n,{}] in evaluation: put a restore_tokens after its mask_tokens",
        model.applications().back().name, embedding[0], in_evaluation[0]);
  for (const PlacementConfig& placement : config.placements)
    model.place(placement.layers, {.kind = placement.parallel, .over = placement.over, .other = placement.other});
  return model;
}

StageCut make_cut(const ModelSpec& model, const StagesConfig& config, int stages,
                  const std::function<StageLoads(BalanceBy)>& loads_of) {
  if (stages == 1) return {.begins = {0}, .end = static_cast<int>(model.applications().size())};
  const auto& applications = model.applications();
  const bool is_named =
      std::any_of(applications.begin(), applications.end(), [](const auto& layer) { return layer.stage.has_value(); });
  if (!config.balance.empty() && config.by) fail<InputError>("model.stages: expected either balance or by, got both");
  if (is_named && (!config.balance.empty() || config.by))
    fail<InputError>("model.stages: layers name their stages: expected neither balance nor by");
  if (!config.balance.empty()) return cut_by_counts(model, config.balance, stages);
  if (is_named) return cut_as_named(model, stages);
  return balanced_cut(loads_of(config.by.value_or(BalanceBy::time)), stages);
}

double kaiming_deviation(std::int64_t out, std::int64_t kernel) {
  return std::sqrt(2.0 / static_cast<double>(out * kernel * kernel));
}

void append_embedding(ModelSpec& model, const ModelConfig& config, std::int64_t in, const std::string& last) {
  if (config.dropout > 0) model.then("dropout", Dropout::spec(config.dropout));
  model.then(last, Linear::spec({.in = in, .out = config.embedding, .bias = !config.embedding_norm}));
  if (config.embedding_norm)
    model.then("features", BatchNorm::spec({.channels = config.embedding, .synchronized = config.synchronized_norms}));
}

}  // namespace heddle
