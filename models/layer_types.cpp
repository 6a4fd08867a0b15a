#include "models/layer_types.h"

#include <algorithm>
#include <list>
#include <utility>

#include <fmt/format.h>

#include "framework/description/describe.h"
#include "layers/modules/activation.h"
#include "layers/modules/class_token.h"
#include "layers/modules/pooling.h"
#include "layers/modules/token_masks.h"

namespace heddle {

template <>
inline constexpr auto enum_names<NormActivation> = enum_table<NormActivation>({
    {NormActivation::none, "none"},
    {NormActivation::relu, "relu"},
    {NormActivation::prelu, "prelu"},
});

namespace {

constexpr double max_size = 1e9;

/// The shape of samples as messages print it: [n,8,8,16].
std::string words(const Shape& sample) {
  return fmt::format("[n,{}]", fmt::join(sample.dimensions(), ","));
}

void expect_image(std::string_view type, const Shape& sample) {
  if (sample.rank() != 3)
    fail<InputError>("{}: expected images [n,height,width,channels], got {}", type, words(sample));
}

void expect_tokens(std::string_view type, const Shape& sample) {
  if (sample.rank() != 2)
    fail<InputError>("{}: expected tokens [n,t,d], got {}: put tokens before it", type, words(sample));
}

LayerSpecPointer make_linear(const GivenLayer& given) {
  if (given.first.rank() > 2)
    fail<InputError>("linear: expected vectors [n,d] or tokens [n,t,d], got {}: put a flatten before it",
                     words(given.first));
  LinearOptions options = given.config.linear;
  options.in = given.channels();
  return Linear::spec(options);
}

LayerSpecPointer make_convolution(const GivenLayer& given) {
  expect_image("conv2d", given.first);
  ConvolutionLayerOptions options = given.config.convolution;
  options.in = given.channels();
  return Convolution::spec(options);
}

LayerSpecPointer make_batch_norm(const GivenLayer& given) {
  BatchNormOptions options = given.config.batch_norm;
  options.channels = given.channels();
  options.slope_name = given.name + ".prelu";
  return BatchNorm::spec(options, given.inputs == 2);
}

template <ActivationKind kind>
LayerSpecPointer make_activation(const GivenLayer& /*given*/) {
  return Activation::spec(kind);
}

template <PoolOp op>
LayerSpecPointer make_pool(const GivenLayer& given) {
  expect_image(op == PoolOp::max ? "max_pool" : "average_pool", given.first);
  const PoolConfig& pool = given.config.pool;
  return Pool::spec(op, {.kernel = {pool.kernel, pool.kernel},
                         .stride = {pool.stride, pool.stride},
                         .padding = {pool.padding, pool.padding}});
}

LayerSpecPointer make_class_token(const GivenLayer& given) {
  expect_tokens("class_token", given.first);
  return ClassToken::spec(given.channels());
}

LayerSpecPointer make_position_embedding(const GivenLayer& given) {
  expect_tokens("position_embedding", given.first);
  return PositionEmbedding::spec(given.first[0], given.first[1]);
}

LayerSpecPointer make_mask_tokens(const GivenLayer& given) {
  expect_tokens("mask_tokens", given.first);
  const auto number = static_cast<std::uint32_t>(given.masks.size());
  given.masks.push_back({given.name, {given.first[0], given.config.mask_ratio, number}});
  return MaskTokens::spec(given.masks.back().masking);
}

LayerSpecPointer make_restore_tokens(const GivenLayer& given) {
  expect_tokens("restore_tokens", given.first);
  const std::string& wanted = given.config.mask;
  const auto found = std::find_if(given.masks.rbegin(), given.masks.rend(),
                                  [&](const NamedMask& mask) { return wanted.empty() || mask.name == wanted; });
  if (found == given.masks.rend())
    fail<InputError>("restore_tokens: there is no mask_tokens{} before it",
                     wanted.empty() ? "" : fmt::format(" \"{}\"", wanted));
  return RestoreTokens::spec(found->masking, given.channels());
}

LayerSpecPointer make_global_pool(const GivenLayer& given) {
  expect_image("global_average_pool", given.first);
  return GlobalAveragePool::spec();
}

void describe_nothing(Describer& /*d*/, LayerConfig& /*config*/) {}

void describe_linear(Describer& d, LayerConfig& config) {
  d.field(required("out"), config.linear.out, between(1, max_size), "size of the output");
  d.field("bias", config.linear.bias, "whether to add a bias");
}

void describe_convolution(Describer& d, LayerConfig& config) {
  ConvolutionLayerOptions& c = config.convolution;
  d.field(required("out"), c.out, between(1, max_size), "output channels");
  d.field("kernel", c.kernel, between(1, 1024), "height and width of the kernel");
  d.field("stride", c.stride, between(1, 1024), "pixels from one window to the next");
  d.field("padding", c.padding, between(0, 1024), "rows of zeros around the image");
  d.field("dilation", c.dilation, between(1, 1024), "pixels from one tap of the kernel to the next");
  d.field("groups", c.groups, between(1, max_size), "groups of channels that are convolved separately");
  d.field("bias", c.bias, "whether to add one bias per channel");
}

void describe_batch_norm(Describer& d, LayerConfig& config) {
  BatchNormOptions& c = config.batch_norm;
  choice(d, "activation", c.activation, "activation after the norm and the sum, fused with them");
  d.field("synchronized", c.synchronized, "statistics over all dp ranks' samples");
  d.field("epsilon", c.epsilon, above(0), "added to the variance");
  d.field("momentum", c.momentum, between(0, 1), "weight of a step's statistics in the running ones");
}

void describe_layer_norm(Describer& d, LayerConfig& config) {
  d.field("epsilon", config.layer_norm_epsilon, above(0), "added to the variance");
}

void describe_dropout(Describer& d, LayerConfig& config) {
  d.field("probability", config.dropout, from_to_below(0, 1), "share of the values that become zero");
}

void describe_drop_path(Describer& d, LayerConfig& config) {
  d.field("probability", config.drop_path, from_to_below(0, 1), "share of the samples that become zero");
}

void describe_mask_tokens(Describer& d, LayerConfig& config) {
  d.field("ratio", config.mask_ratio, from_to_below(0, 1), "share of each sample's tokens that training leaves out");
}

void describe_restore_tokens(Describer& d, LayerConfig& config) {
  d.field("mask", config.mask, "name of the mask_tokens layer whose tokens return; empty: the last one before it");
}

void describe_attention(Describer& d, LayerConfig& config) {
  d.field("heads", config.attention.heads, between(1, 65536), "number of heads, which share the features evenly");
  d.field("scale", config.attention.scale, between(0, 1e6),
          "factor of the products of queries and keys; 0: 1 / sqrt(features of a head)");
  describe_attention_dropout(d, "dropout", config.attention.dropout);
}

void describe_pool(Describer& d, LayerConfig& config) {
  d.field("kernel", config.pool.kernel, between(1, 1024), "height and width of the window");
  d.field("stride", config.pool.stride, between(1, 1024), "pixels from one window to the next");
  d.field("padding", config.pool.padding, between(0, 512), "rows of padding around the image, at most half the kernel");
}

struct LayerRow {
  std::string_view name;
  std::string_view help;
  void (*describe)(Describer&, LayerConfig&);
  LayerSpecPointer (*make)(const GivenLayer&);
};

constexpr auto layer_table = enum_table<LayerType, LayerRow>({
    {LayerType::linear, {"linear", "fully connected layer", describe_linear, make_linear}},
    {LayerType::conv2d, {"conv2d", "convolution", describe_convolution, make_convolution}},
    {LayerType::batch_norm,
     {"batch_norm", "batch norm; a second input is added to its result", describe_batch_norm, make_batch_norm}},
    {LayerType::layer_norm,
     {"layer_norm", "norm over the last dimension", describe_layer_norm,
      [](const GivenLayer& given) { return LayerNorm::spec(given.channels(), given.config.layer_norm_epsilon); }}},
    {LayerType::relu, {"relu", "max(x, 0)", describe_nothing, make_activation<ActivationKind::relu>}},
    {LayerType::relu6, {"relu6", "min(max(x, 0), 6)", describe_nothing, make_activation<ActivationKind::relu6>}},
    {LayerType::sigmoid, {"sigmoid", "1 / (1 + exp(-x))", describe_nothing, make_activation<ActivationKind::sigmoid>}},
    {LayerType::tanh, {"tanh", "hyperbolic tangent", describe_nothing, make_activation<ActivationKind::tanh>}},
    {LayerType::gelu,
     {"gelu", "x times the standard normal distribution function of x", describe_nothing,
      make_activation<ActivationKind::gelu>}},
    {LayerType::prelu,
     {"prelu", "ReLU with a trained slope below zero for each channel", describe_nothing,
      [](const GivenLayer& given) { return PRelu::spec(given.channels()); }}},
    {LayerType::dropout,
     {"dropout", "sets values to zero at random", describe_dropout,
      [](const GivenLayer& given) { return Dropout::spec(given.config.dropout); }}},
    {LayerType::drop_path,
     {"drop_path", "sets whole samples of a residual branch to zero at random", describe_drop_path,
      [](const GivenLayer& given) { return DropPath::spec(given.config.drop_path); }}},
    {LayerType::add, {"add", "sum of two inputs", describe_nothing, [](const GivenLayer&) { return Add::spec(); }}},
    {LayerType::tokens,
     {"tokens", "turns an image into tokens, one for each pixel", describe_nothing,
      [](const GivenLayer&) { return ImageTokens::spec(); }}},
    {LayerType::class_token,
     {"class_token", "puts a trained token before the others", describe_nothing, make_class_token}},
    {LayerType::position_embedding,
     {"position_embedding", "adds a trained vector to each token", describe_nothing, make_position_embedding}},
    {LayerType::mask_tokens,
     {"mask_tokens", "leaves out tokens at random in training", describe_mask_tokens, make_mask_tokens}},
    {LayerType::restore_tokens,
     {"restore_tokens", "puts the tokens back in their places, and a trained vector into those of the masked ones",
      describe_restore_tokens, make_restore_tokens}},
    {LayerType::attention,
     {"attention", "softmax attention between tokens; a linear layer before it gives queries, keys and values",
      describe_attention, [](const GivenLayer& given) { return Attention::spec(given.config.attention); }}},
    {LayerType::first_token,
     {"first_token", "the first token of each sample as a vector", describe_nothing,
      [](const GivenLayer&) { return FirstToken::spec(); }}},
    {LayerType::max_pool, {"max_pool", "maximum of a window", describe_pool, make_pool<PoolOp::max>}},
    {LayerType::average_pool, {"average_pool", "mean of a window", describe_pool, make_pool<PoolOp::average>}},
    {LayerType::global_average_pool,
     {"global_average_pool", "mean of each channel, which turns an image into a vector", describe_nothing,
      make_global_pool}},
    {LayerType::flatten,
     {"flatten", "turns an image into a vector", describe_nothing, [](const GivenLayer&) { return Flatten::spec(); }}},
});

/// The layers of extensions. A list, because configurations point into it.
std::list<ExtensionLayer>& extension_layers() {
  static std::list<ExtensionLayer> added;
  return added;
}

/// The type of a layer: one of the table or, after these, of an extension.
void describe_type(Describer& d, LayerConfig& config) {
  std::vector<Describer::Alternative> kinds = alternatives_of(layer_table, config);
  const std::list<ExtensionLayer>& added = extension_layers();
  std::vector<ChosenExtensionLayer> chosen;
  chosen.reserve(added.size());
  int index = config.type ? static_cast<int>(*config.type) : -1;
  for (const ExtensionLayer& layer : added) {
    const bool is_chosen = config.extension.layer == &layer;
    if (is_chosen) index = static_cast<int>(kinds.size());
    chosen.push_back(is_chosen ? config.extension : ChosenExtensionLayer{&layer, layer.defaults});
    kinds.push_back(
        {layer.name, layer.help, [&own = chosen.back()](Describer& inner) { own.layer->describe(inner, own.config); }});
  }
  d.alternatives(index, kinds, "what the layer does");
  if (index < 0) return;
  config.type.reset();
  config.extension = {};
  if (index < static_cast<int>(layer_table.size))
    config.type = static_cast<LayerType>(index);
  else
    config.extension = std::move(chosen[static_cast<std::size_t>(index) - layer_table.size]);
}

}  // namespace

std::string_view type_of(const LayerConfig& config) {
  return config.extension.layer != nullptr ? config.extension.layer->name : layer_table[config.type.value()].name;
}

LayerSpecPointer make_layer(const GivenLayer& given) {
  const ChosenExtensionLayer& own = given.config.extension;
  return own.layer != nullptr ? own.layer->make(own.config, given.first)
                              : layer_table[given.config.type.value()].make(given);
}

void describe_attention_dropout(Describer& d, const char* key, double& probability) {
  d.field(
      key, probability, from_to_below(0, 1),
      "probability with which the attention weight of a token becomes zero in training; the others are divided by 1 "
      "- this");
}

void describe(Describer& d, LayerConfig& config) {
  d.field("name", config.name, "prefix of its parameters' names; empty: TYPE_INDEX, counted from 0");
  d.field("inputs", config.inputs, between(0, 2),
          "names of the layers that it reads, or \"input\"; empty: the layer before it");
  choice(d, "parallel", config.parallel, "automatic",
         "how it is split over ranks; automatic: with the least communication");
  choice(d, "over", config.over, "automatic", std::span<const Axis>(layer_axes),
         "the mesh axis that splits it; automatic: tp if it has several ranks, else dp");
  std::int64_t stage = config.stage.value_or(-1);
  d.field("stage", stage, between(-1, 1e6), "its pipeline stage, from 0; -1: that of the layer before it");
  config.stage = stage < 0 ? std::nullopt : std::optional(stage);
  d.field("recompute", config.recompute, "whether its values are recomputed in the backward pass rather than kept");
  describe_type(d, config);
}

void add_layers(const std::vector<ExtensionLayer>& layers) {
  for (const ExtensionLayer& layer : layers) {
    const auto is_named = [&](const auto& row) { return row.name == layer.name; };
    std::list<ExtensionLayer>& known = extension_layers();
    if (std::any_of(layer_table.rows().begin(), layer_table.rows().end(), is_named) ||
        std::any_of(known.begin(), known.end(), is_named))
      fail<InputError>("there is a layer type \"{}\" already", layer.name);
    known.push_back(layer);
  }
}

}  // namespace heddle
