// The graphs that exports are made of. tests/experiments/export/onnx_test.sh runs them.
#include "layers/inference_graph.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "models/models.h"

namespace heddle::test {

namespace {

ModelSpec model_of(ModelType type, const ImageShape& image = {3, 64, 64}) {
  return make_model({.type = type, .embedding = 16}, image);
}

const InferenceTensor& tensor_of(const InferenceGraph& graph, const std::string& name) {
  const auto found = std::find_if(graph.tensors().begin(), graph.tensors().end(),
                                  [&](const InferenceTensor& tensor) { return tensor.name == name; });
  REQUIRE_MESSAGE(found != graph.tensors().end(), name);
  return *found;
}

std::vector<std::string> operators_of(const InferenceGraph& graph) {
  std::vector<std::string> names;
  for (const InferenceNode& node : graph.nodes()) names.push_back(node.op);
  return names;
}

}  // namespace

TEST_CASE("a graph has the names and shapes of torchvision's state dict") {
  const InferenceGraph resnet(model_of(ModelType::resnet18));
  // 62 parameters, and mean and variance of 20 batch norms.
  CHECK(resnet.tensors().size() == 102);
  CHECK(tensor_of(resnet, "conv1.weight").shape == Shape{64, 3, 7, 7});
  CHECK(tensor_of(resnet, "layer2.0.downsample.0.weight").shape == Shape{128, 64, 1, 1});
  CHECK(tensor_of(resnet, "layer4.1.bn2.running_var").shape == Shape{512});
  CHECK(tensor_of(resnet, "fc.weight").shape == Shape{16, 512});
  CHECK(resnet.nodes().back().output == "embedding");

  const InferenceGraph grouped(model_of(ModelType::resnext));
  CHECK(tensor_of(grouped, "layer1.0.conv2.weight").shape == Shape{128, 4, 3, 3});
}

TEST_CASE("tensors over a flattened image have PyTorch's order") {
  const InferenceGraph iresnet(model_of(ModelType::iresnet18));
  const InferenceTensor& columns = tensor_of(iresnet, "fc.weight");
  CHECK(columns.shape == Shape{16, 512 * 4 * 4});
  CHECK(columns.image == ImageShape{.channels = 512, .height = 4, .width = 4});
  // The linear layer's output is no image any more.
  CHECK(!tensor_of(iresnet, "features.weight").image);

  const InferenceTensor tensor{"weight", {2, 6}, ImageShape{.channels = 3, .height = 1, .width = 2}};
  const std::vector<float> ours{0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32};
  std::vector<float> torch(ours.size());
  tensor.to_torch(ours, torch);
  CHECK(torch == std::vector<float>{0, 10, 1, 11, 2, 12, 20, 30, 21, 31, 22, 32});
  const InferenceTensor same{"bias", {12}};
  same.to_torch(ours, torch);
  CHECK(torch == ours);
}

TEST_CASE("a norm's residual and activation are operators of their own, and dropout is none") {
  const InferenceGraph graph(make_layers({{.type = LayerType::conv2d, .convolution = {.in = 3, .out = 4}},
                                          {.type = LayerType::prelu},
                                          {.type = LayerType::dropout},
                                          {.type = LayerType::flatten},
                                          {.type = LayerType::prelu},
                                          {.type = LayerType::flatten},
                                          {.type = LayerType::gelu}},
                                         {3, 4, 4}));
  CHECK(operators_of(graph) == std::vector<std::string>{"Conv", "PRelu", "Flatten", "PRelu", "Mul", "Erf", "Add", "Mul",
                                                        "Mul", "Gather", "Identity"});
  // Its features are brought into our order: the second one is that of the second channel in the first pixel.
  CHECK(graph.embedding_image() == ImageShape{.channels = 4, .height = 4, .width = 4});
  CHECK(graph.index_lists().at("order:4x4x4").at(1) == 16);
  CHECK(tensor_of(graph, "prelu_1.weight").operand == Shape{4, 1, 1});
  const InferenceTensor& flat = tensor_of(graph, "prelu_4.weight");
  CHECK(flat.image == ImageShape{.channels = 4, .height = 4, .width = 4});
  CHECK(!flat.operand);

  const std::vector<std::string> blocks = operators_of(InferenceGraph(model_of(ModelType::resnet18)));
  CHECK(std::count(blocks.begin(), blocks.end(), "Add") == 8);
  CHECK(std::count(blocks.begin(), blocks.end(), "Relu") == 17);
}

}  // namespace heddle::test
