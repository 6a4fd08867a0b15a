// The published networks: the names, shapes and number of their parameters, and that they run.
#include <cmath>
#include <map>

#include <doctest/doctest.h>

#include "experiments/training/trainer.h"
#include "layers/planner/planner.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"
#include "tests/support/layouts.h"

namespace heddle::test::models_test {

namespace {

struct Listed {
  std::vector<std::string> names;
  std::map<std::string, Shape> shapes;
  std::int64_t elements = 0;
};

/// The parameters of a model as one rank builds it, without data.
Listed parameters_of(const ModelConfig& config, const ImageShape& image) {
  Device device = test::make_device("plan");
  Construction construction{device, {1}};
  const auto description = std::make_shared<ModelSpec>(make_model(config, image));
  Model model(description, std::make_shared<ModelPlacement>(place(*description, {})), {}, construction);
  Listed listed;
  for (const Parameter* parameter : model.parameters()) {
    listed.names.push_back(parameter->name);
    listed.shapes[parameter->name] = parameter->value.shape();
    listed.elements += parameter->value.numel();
  }
  return listed;
}

/// The deviation of a parameter's initial elements.
double initial_deviation(const ModelConfig& config, const ImageShape& image, const std::string& name) {
  Device device = test::make_device("cpu");
  Construction construction{device, {1}};
  const auto description = std::make_shared<ModelSpec>(make_model(config, image));
  Model model(description, std::make_shared<ModelPlacement>(place(*description, {})), {}, construction);
  double squares = 0;
  std::size_t elements = 0;
  for (const Parameter* parameter : model.parameters()) {
    if (parameter->name != name) continue;
    for (const double x : parameter->value.to_doubles()) squares += x * x;
    elements = static_cast<std::size_t>(parameter->value.numel());
  }
  return std::sqrt(squares / static_cast<double>(elements));
}

const ImageShape imagenet{3, 224, 224};

}  // namespace

TEST_CASE("ResNeXt and VGG have torchvision's parameters, by name, shape and number") {
  // 1000 outputs, as published.
  ModelConfig resnext{.type = ModelType::resnext, .embedding = 1000};
  Listed listed = parameters_of(resnext, imagenet);
  CHECK(listed.elements == 25'028'904);  // resnext50_32x4d
  CHECK(listed.shapes.at("layer1.0.conv2.weight") == Shape{128, 3, 3, 4});
  CHECK(listed.shapes.at("layer4.2.conv3.weight") == Shape{2048, 1, 1, 1024});
  CHECK(listed.shapes.at("layer2.0.downsample.0.weight") == Shape{512, 1, 1, 256});
  CHECK(listed.names.front() == "conv1.weight");
  CHECK(listed.names.back() == "fc.bias");
  resnext.resnext = {.blocks = {3, 4, 23, 3}, .cardinality = 32, .width = 8};
  CHECK(parameters_of(resnext, imagenet).elements == 88'791'336);  // resnext101_32x8d

  ModelConfig vgg{.type = ModelType::vgg11, .embedding = 1000};
  listed = parameters_of(vgg, imagenet);
  CHECK(listed.elements == 132'863'336);
  CHECK(listed.names[0] == "features.0.weight");
  CHECK(listed.names[2] == "features.3.weight");
  CHECK(listed.shapes.at("features.18.weight") == Shape{512, 3, 3, 512});
  CHECK(listed.shapes.at("classifier.0.weight") == Shape{4096, 25088});
  CHECK(listed.shapes.at("classifier.6.bias") == Shape{1000});
  vgg.vgg.norms = true;
  listed = parameters_of(vgg, imagenet);
  CHECK(listed.elements == 132'868'840);  // vgg11_bn
  CHECK(listed.names[2] == "features.1.weight");
  CHECK(listed.shapes.at("features.25.weight") == Shape{512, 3, 3, 512});
  vgg.type = ModelType::vgg16;
  CHECK(parameters_of(vgg, imagenet).elements == 138'365'992);  // vgg16_bn
  vgg.vgg.norms = false;
  CHECK(parameters_of(vgg, imagenet).elements == 138'357'544);
  CHECK(parameters_of({.type = ModelType::vgg13, .embedding = 1000}, imagenet).elements == 133'047'848);
  CHECK(parameters_of({.type = ModelType::vgg19, .embedding = 1000}, imagenet).elements == 143'667'240);
}

TEST_CASE("MobileFaceNet has InsightFace's parameters; at scale 1 it is the paper's million") {
  const ImageShape faces{3, 112, 112};
  ModelConfig config{.type = ModelType::mobilefacenet};
  Listed listed = parameters_of(config, faces);
  CHECK(listed.elements == 2'059'520);  // mbf
  CHECK(listed.shapes.at("layers.1.layers.0.weight") == Shape{128, 3, 3, 2});
  CHECK(listed.shapes.at("layers.3.layers.0.layers.1.layers.0.weight") == Shape{128, 3, 3, 1});
  CHECK(listed.shapes.at("layers.3.layers.0.layers.1.layers.2.weight") == Shape{128});  // PReLU
  CHECK(listed.shapes.at("features.layers.0.layers.0.weight") == Shape{512, 7, 7, 1});
  CHECK(listed.shapes.at("features.layers.2.weight") == Shape{512, 512});
  config.mobilefacenet = {.blocks = {2, 8, 12, 4}, .scale = 4};
  listed = parameters_of(config, faces);
  CHECK(listed.elements == 6'314'880);  // mbf_large
  CHECK(listed.shapes.at("layers.1.layers.1.layers.2.layers.0.weight") == Shape{256, 1, 1, 128});
  CHECK(parameters_of({.type = ModelType::mobilefacenet, .embedding = 128, .mobilefacenet = {.scale = 1}}, faces)
            .elements == 1'003'136);
  CHECK_THROWS_WITH_AS(parameters_of(config, {3, 112, 96}),
                       "mobilefacenet: expected square images, because its last kernel is square, got 112 x 96",
                       InputError);
}

TEST_CASE("grouped convolutions and MobileFaceNet's linear layer begin with their namesakes' deviations") {
  const ModelConfig resnext{.type = ModelType::resnext, .embedding = 8};
  // torchvision counts out * kernel^2, whatever the groups are.
  CHECK(initial_deviation(resnext, {3, 32, 32}, "layer2.0.conv2.weight") ==
        close_to(std::sqrt(2.0 / (256 * 9))).epsilon(0.02));
  const ModelConfig mobile{.type = ModelType::mobilefacenet, .embedding = 256};
  const ImageShape faces{3, 64, 64};
  CHECK(initial_deviation(mobile, faces, "layers.3.layers.0.layers.1.layers.0.weight") ==
        close_to(std::sqrt(2.0 / (128 * 9))).epsilon(0.1));
  CHECK(initial_deviation(mobile, faces, "features.layers.0.layers.0.weight") ==
        close_to(std::sqrt(2.0 / (512 * 16))).epsilon(0.05));
  CHECK(initial_deviation(mobile, faces, "conv_sep.layers.0.weight") == close_to(std::sqrt(2.0 / 512)).epsilon(0.02));
  CHECK(initial_deviation(mobile, faces, "features.layers.2.weight") == close_to(std::sqrt(2.0 / 256)).epsilon(0.02));
}

}  // namespace heddle::test::models_test
