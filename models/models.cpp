#include "models/models.h"

#include <array>
#include <string_view>

#include "framework/describe.h"
#include "layers/activation.h"
#include "layers/linear.h"
#include "layers/normalization.h"

namespace heddle {

template <>
std::span<const std::string_view> names_of<AxisChoice>() {
  static constexpr std::array<std::string_view, 3> names{"automatic", "dp", "tp"};
  return names;
}

template <>
std::span<const std::string_view> names_of<Stem>() {
  static constexpr std::array<std::string_view, 2> names{"imagenet", "small"};
  return names;
}

static void describe(Describer& d, PlacementConfig& config) {
  d.field(required("layers"), config.layers, "a layer's name; * stands for any text, as in layer4.*.conv2");
  choice(d, "parallel", config.parallel, "how these layers are split");
  choice(d, "over", config.over, "the mesh axis that splits them; automatic: tp if it has several ranks, else dp");
}

namespace {

struct Row {
  std::string_view name;
  std::string_view help;
  ModelDescription (*make)(const ModelConfig&, const ImageShape&);
};

// In the order of ModelType.
constexpr std::array<Row, 8> table{{{"mlp", "linear layers with ReLU between them", make_mlp},
                                    {"resnet18", "torchvision's ResNet-18", make_resnet},
                                    {"resnet34", "torchvision's ResNet-34", make_resnet},
                                    {"resnet50", "torchvision's ResNet-50 (bottleneck blocks)", make_resnet},
                                    {"iresnet18", "InsightFace's IR-18", make_iresnet},
                                    {"iresnet34", "InsightFace's IR-34", make_iresnet},
                                    {"iresnet50", "InsightFace's IR-50", make_iresnet},
                                    {"iresnet100", "InsightFace's IR-100", make_iresnet}}};

PlacementWish wish_of(const PlacementConfig& config) {
  PlacementWish wish{.kind = config.parallel};
  if (config.over == AxisChoice::dp) wish.over = Axis::dp;
  if (config.over == AxisChoice::tp) wish.over = Axis::tp;
  return wish;
}

void describe_common(Describer& d, ModelConfig& config) {
  d.field("embedding", config.embedding, between(1, 65536), "size of the embedding");
  d.field("dropout", config.dropout, from_to_below(0, 1), "probability of dropout before the last linear layer");
  d.field("synchronized_norms", config.synchronized_norms, "batch norms take statistics over all dp ranks' samples");
  list(d, "placements", config.placements, between(0, 10000), "layers that are not data-parallel");
}

}  // namespace

void describe_model(Describer& d, ModelConfig& config) {
  std::vector<Describer::Alternative> alternatives;
  for (const Row& row : table) {
    alternatives.push_back(
        {row.name, row.help, [&config, make = row.make](Describer& inner) {
           describe_common(inner, config);
           if (make == make_mlp)
             inner.field("hidden", config.hidden, between(1, 1 << 20), between(0, 64), "sizes of the hidden layers");
           if (make == make_resnet)
             choice(inner, "stem", config.stem, "imagenet: 7 x 7, stride 2, max pooling; small: 3 x 3, stride 1");
           if (make != make_iresnet)
             inner.field("embedding_norm", config.embedding_norm, "batch norm on the embedding, in place of a bias");
         }});
  }
  int type = static_cast<int>(config.type);
  d.tagged("model", type, alternatives, "the backbone, from images to embeddings");
  config.type = static_cast<ModelType>(type);
}

ModelDescription make_model(const ModelConfig& config, const ImageShape& image) {
  ModelDescription model = table[static_cast<std::size_t>(config.type)].make(config, image);
  for (const PlacementConfig& placement : config.placements) model.place(placement.layers, wish_of(placement));
  return model;
}

void append_embedding(ModelDescription& model, const ModelConfig& config, std::int64_t in) {
  if (config.dropout > 0) model.then("dropout", Dropout::describe(config.dropout));
  model.then("fc", Linear::describe({.in = in, .out = config.embedding, .bias = !config.embedding_norm}));
  if (config.embedding_norm)
    model.then("features",
               BatchNorm::describe({.channels = config.embedding, .synchronized = config.synchronized_norms}));
}

}  // namespace heddle
