// A model that an experiment writes out layer by layer (`"type": "layers"`): the type, the inputs and the placement of
// each layer. The sizes of inputs follow from the image.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/tensors/image_shape.h"
#include "layers/convolution.h"
#include "layers/linear.h"
#include "layers/model_spec.h"
#include "layers/normalization.h"
#include "layers/tokens.h"

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
  position_embedding,
  attention,
  max_pool,
  average_pool,
  global_average_pool,
  flatten
};

struct LayerConfig {
  std::string name{};                  // TYPE_INDEX if empty
  std::vector<std::string> inputs{};   // the layer before it if empty
  std::optional<Parallel> parallel{};  // the planner's choice if empty
  std::optional<Axis> over{};          // dp or tp; if empty: tp if the mesh has several ranks there, else dp
  std::int64_t stage = -1;             // of the pipeline; -1: that of the layer before it
  bool recompute = false;
  std::optional<LayerType> type{};  // must be given
  LinearOptions linear{};
  ConvolutionLayerOptions convolution{};
  BatchNormOptions batch_norm{};
  double layer_norm_epsilon = 1e-5;
  double dropout = 0.5;
  double drop_path = 0.1;
  AttentionOptions attention{};
  PoolConfig pool{};
};

void describe(Describer& d, LayerConfig& config);

/// InputError names the layer whose name is used twice, whose input is not a layer before it, or whose inputs do not
/// fit.
ModelSpec make_layers(const std::vector<LayerConfig>& layers, const ImageShape& image);

}  // namespace heddle
