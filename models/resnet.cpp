#include "layers/modules/activation.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "layers/modules/pooling.h"
#include "models/models.h"

namespace heddle {

namespace {

struct Variant {
  std::vector<std::int64_t> blocks;  // number in each stage
  bool bottleneck = false;
  std::int64_t groups = 1;  // the groups of the bottlenecks' 3 x 3 convolutions
  std::int64_t width = 64;  // channels per group of these, in the first stage
};

Variant variant_of(ModelType type) {
  switch (type) {
    case ModelType::resnet18:
      return {.blocks = {2, 2, 2, 2}};
    case ModelType::resnet34:
      return {.blocks = {3, 4, 6, 3}};
    case ModelType::resnet50:
      return {.blocks = {3, 4, 6, 3}, .bottleneck = true};
    default:
      fail("resnet: model type {} belongs to another family", static_cast<int>(type));
  }
}

class ResNetBuilder {
 public:
  ResNetBuilder(const ImageShape& image, bool synchronized) : model(shape_of(image)), synchronized_(synchronized) {}

  int convolution(const std::string& name, int input, const ConvolutionLayerOptions& options) {
    return model.apply(name, Convolution::spec(options), {input});
  }
  /// Batch norm, with ReLU and a residual if there is one.
  int norm(const std::string& name, std::vector<int> inputs, std::int64_t channels, NormActivation activation) {
    const bool with_residual = inputs.size() > 1;
    return model.apply(
        name,
        BatchNorm::spec({.channels = channels, .activation = activation, .synchronized = synchronized_}, with_residual),
        std::move(inputs));
  }
  int shortcut(const std::string& name, int x, std::int64_t in, std::int64_t out, std::int64_t stride) {
    if (stride == 1 && in == out) return x;
    const int projected =
        convolution(name + ".downsample.0", x, {.in = in, .out = out, .kernel = 1, .stride = stride, .padding = 0});
    return norm(name + ".downsample.1", {projected}, out, NormActivation::none);
  }
  int basic_block(const std::string& name, int x, std::int64_t in, std::int64_t out, std::int64_t stride) {
    int y = convolution(name + ".conv1", x, {.in = in, .out = out, .stride = stride});
    y = norm(name + ".bn1", {y}, out, NormActivation::relu);
    y = convolution(name + ".conv2", y, {.in = out, .out = out});
    return norm(name + ".bn2", {y, shortcut(name, x, in, out, stride)}, out, NormActivation::relu);
  }
  /// `width`: the channels of the 3 x 3 convolution.
  int bottleneck_block(const std::string& name, int x, std::int64_t in, std::int64_t width, std::int64_t groups,
                       std::int64_t out, std::int64_t stride) {
    int y = convolution(name + ".conv1", x, {.in = in, .out = width, .kernel = 1, .padding = 0});
    y = norm(name + ".bn1", {y}, width, NormActivation::relu);
    y = convolution(
        name + ".conv2", y,
        {.in = width, .out = width, .stride = stride, .groups = groups, .deviation = kaiming_deviation(width, 3)});
    y = norm(name + ".bn2", {y}, width, NormActivation::relu);
    y = convolution(name + ".conv3", y, {.in = width, .out = out, .kernel = 1, .padding = 0});
    return norm(name + ".bn3", {y, shortcut(name, x, in, out, stride)}, out, NormActivation::relu);
  }

  ModelSpec model;

 private:
  bool synchronized_;
};

ModelSpec make_variant(const Variant& variant, const ModelConfig& config, const ImageShape& image) {
  ResNetBuilder builder(image, config.synchronized_norms);
  ModelSpec& model = builder.model;
  if (config.stem == Stem::imagenet) {
    const int y =
        builder.convolution("conv1", 0, {.in = image.channels, .out = 64, .kernel = 7, .stride = 2, .padding = 3});
    builder.norm("bn1", {y}, 64, NormActivation::relu);
    model.then("maxpool", Pool::spec(PoolOp::max, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}));
  } else {
    const int y = builder.convolution("conv1", 0, {.in = image.channels, .out = 64});
    builder.norm("bn1", {y}, 64, NormActivation::relu);
  }
  std::int64_t in = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t channels = std::int64_t{64} << stage;
    const std::int64_t out = variant.bottleneck ? 4 * channels : channels;
    for (int block = 0; block < variant.blocks[static_cast<std::size_t>(stage)]; ++block) {
      const std::string name = fmt::format("layer{}.{}", stage + 1, block);
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      model.begin_block();
      if (variant.bottleneck)
        builder.bottleneck_block(name, model.last_value(), in, (variant.groups * variant.width) << stage,
                                 variant.groups, out, stride);
      else
        builder.basic_block(name, model.last_value(), in, out, stride);
      in = out;
    }
  }
  model.end_blocks();
  model.then("avgpool", GlobalAveragePool::spec());
  append_embedding(model, config, in);
  return std::move(model);
}

}  // namespace

ModelSpec make_resnet(const ModelConfig& config, const ImageShape& image) {
  return make_variant(variant_of(config.type), config, image);
}

ModelSpec make_resnext(const ModelConfig& config, const ImageShape& image) {
  const ResnextConfig& c = config.resnext;
  return make_variant({.blocks = c.blocks, .bottleneck = true, .groups = c.cardinality, .width = c.width}, config,
                      image);
}

}  // namespace heddle
