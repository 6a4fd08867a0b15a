// The random streams that layers take while they are built.
#include <optional>
#include <set>

#include <doctest/doctest.h>

#include "layers/planner/planner.h"
#include "models/layer_list.h"
#include "tests/support/devices.h"

namespace heddle::test {

TEST_CASE("building a layer takes the random streams that its description says, whatever it is") {
  std::vector<LayerConfig> layers;
  const auto add = [&](LayerType type, std::vector<std::string> inputs = {}) -> LayerConfig& {
    layers.push_back({.name = fmt::format("layer{}", layers.size()), .inputs = std::move(inputs)});
    layers.back().type = type;
    return layers.back();
  };
  add(LayerType::conv2d).convolution.out = 4;
  layers.back().convolution.bias = true;
  add(LayerType::conv2d).convolution.out = 4;
  for (const NormActivation activation : {NormActivation::none, NormActivation::relu, NormActivation::prelu})
    add(LayerType::batch_norm).batch_norm.activation = activation;
  for (const LayerType type : {LayerType::relu, LayerType::relu6, LayerType::sigmoid, LayerType::tanh, LayerType::gelu,
                               LayerType::prelu, LayerType::dropout, LayerType::drop_path, LayerType::layer_norm})
    add(type);
  add(LayerType::add, {layers.back().name, layers[layers.size() - 2].name});
  add(LayerType::max_pool);
  const std::string image = add(LayerType::average_pool).name;
  add(LayerType::tokens);
  add(LayerType::class_token);
  add(LayerType::position_embedding);
  add(LayerType::mask_tokens);
  add(LayerType::linear).linear = {.out = 12, .bias = false};
  add(LayerType::attention).attention = {.heads = 2, .dropout = 0.2};
  add(LayerType::linear).linear = {.out = 12, .bias = false};
  add(LayerType::attention).attention.heads = 2;
  add(LayerType::restore_tokens);
  add(LayerType::first_token);
  add(LayerType::flatten);
  LayerConfig& joined = add(LayerType::linear);
  joined.linear = {.out = 4, .bias = true};
  const std::string vector = joined.name;
  const std::string pixel = add(LayerType::global_average_pool, {image}).name;
  add(LayerType::add, {vector, pixel});
  add(LayerType::linear).linear = {.out = 3, .bias = false};
  std::set<std::optional<LayerType>> types;
  for (const LayerConfig& layer : layers) types.insert(layer.type);
  CHECK(types.size() == enumerator_count<LayerType>());

  const ModelSpec model = make_layers(layers, {.channels = 3, .height = 8, .width = 8});
  const ModelPlacement plan = place(model, {});
  Device device = test::make_device("plan");
  Construction construction{device, {1}};
  for (std::size_t i = 0; i < model.applications().size(); ++i) {
    const auto& layer = *model.applications()[i].layer;
    CAPTURE(layer.type());
    const std::uint32_t before = construction.next_stream;
    (void)layer.build(construction, "layer", plan.layout(model, i, {}));
    CHECK(construction.next_stream - before == layer.streams());
  }
  CHECK(construction.next_stream == model.streams());
}

}  // namespace heddle::test
