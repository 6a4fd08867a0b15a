// A model that an experiment writes out layer by layer (`"type": "layers"`): the type, the inputs and the placement of
// each layer. The sizes of inputs follow from the image.
#pragma once

#include <any>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tensors/image_shape.h"
#include "layers/model_spec.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "layers/modules/tokens.h"

namespace heddle {

class Describer;

/// Square windows.
struct PoolConfig {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
};

/// Each has a row in the table of layers.
enum class LayerType {
  linear,
  conv2d,
  batch_norm,
  layer_norm,
  relu,
  relu6,
  sigmoid,
  tanh,
  gelu,
  prelu,
  dropout,
  drop_path,
  add,
  tokens,
  class_token,
  position_embedding,
  mask_tokens,
  restore_tokens,
  attention,
  first_token,
  max_pool,
  average_pool,
  global_average_pool,
  flatten
};

/// A layer type that an extension of the program defines, and its keys; `extension_layer` makes it.
struct ExtensionLayer {
  std::string_view name;
  std::string_view help;
  std::any defaults;  // a config
  std::function<void(Describer&, std::any& config)> describe;
  std::function<LayerSpecPointer(const std::any& config, const Shape& input)> make;
};
/// `Config` holds the layer's keys and has a `describe`. `make` is given the shape of one sample of the first input,
/// and throws InputError if that does not fit.
template <class Config>
ExtensionLayer extension_layer(std::string_view name, std::string_view help,
                               LayerSpecPointer (*make)(const Config&, const Shape& input)) {
  return {name, help, Config{}, [](Describer& d, std::any& config) { describe(d, *std::any_cast<Config>(&config)); },
          [make](const std::any& config, const Shape& input) { return make(*std::any_cast<Config>(&config), input); }};
}
/// Models that are read later may have these layers. Must be called before there are several threads. InputError for a
/// name that a layer type has.
void add_layers(const std::vector<ExtensionLayer>& layers);

/// An extension's layer with the values of its keys.
struct ChosenExtensionLayer {
  const ExtensionLayer* layer = nullptr;  // none: the layer is one of LayerType
  std::any config{};
};

struct LayerConfig {
  std::string name{};                   // TYPE_INDEX if empty
  std::vector<std::string> inputs{};    // the layer before it if empty
  std::optional<Parallel> parallel{};   // the planner's choice if empty
  std::optional<Axis> over{};           // dp or tp; if empty: tp if the mesh has several ranks there, else dp
  std::optional<std::int64_t> stage{};  // of the pipeline; if empty: that of the layer before it
  bool recompute = false;
  std::optional<LayerType> type{};  // this or `extension` must be given
  LinearOptions linear{};
  ConvolutionLayerOptions convolution{};
  BatchNormOptions batch_norm{};
  double layer_norm_epsilon = 1e-5;
  double dropout = 0.5;
  double drop_path = 0.1;
  double mask_ratio = 0.1;
  std::string mask{};  // the name of a mask_tokens layer; the last one before this if empty
  AttentionOptions attention{};
  PoolConfig pool{};
  ChosenExtensionLayer extension{};
};

void describe(Describer& d, LayerConfig& config);
/// AttentionOptions::dropout, under this key.
void describe_attention_dropout(Describer& d, const char* key, double& probability);

/// InputError names the layer whose name is used twice, whose input is not a layer before it, or whose inputs do not
/// fit.
ModelSpec make_layers(const std::vector<LayerConfig>& layers, const ImageShape& image);

}  // namespace heddle
