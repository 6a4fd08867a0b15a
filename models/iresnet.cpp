#include <array>

#include "layers/modules/activation.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "models/models.h"

namespace heddle {

namespace {

std::array<int, 4> blocks_of(ModelType type) {
  switch (type) {
    case ModelType::iresnet18:
      return {2, 2, 2, 2};
    case ModelType::iresnet34:
      return {3, 4, 6, 3};
    case ModelType::iresnet50:
      return {3, 4, 14, 3};
    case ModelType::iresnet100:
      return {3, 13, 30, 3};
    default:
      fail("iresnet: model type {} belongs to another family", static_cast<int>(type));
  }
}

constexpr double convolution_deviation = 0.1;  // InsightFace's initial weights

class IResNetBuilder {
 public:
  IResNetBuilder(const ImageShape& image, bool synchronized) : model(shape_of(image)), synchronized_(synchronized) {}

  int convolution(const std::string& name, int input, ConvolutionLayerOptions options) {
    options.deviation = convolution_deviation;
    return model.apply(name, Convolution::spec(options), {input});
  }
  int norm(const std::string& name, std::vector<int> inputs, std::int64_t channels,
           const std::string& prelu_name = "") {
    BatchNormOptions options{.channels = channels, .slope_name = prelu_name, .synchronized = synchronized_};
    if (!prelu_name.empty()) options.activation = NormActivation::prelu;
    const bool with_residual = inputs.size() > 1;
    return model.apply(name, BatchNorm::spec(options, with_residual), std::move(inputs));
  }
  /// bn1, conv1, bn2, prelu, conv2 (which has the stride), bn3, plus the shortcut.
  int block(const std::string& name, int x, std::int64_t in, std::int64_t out, std::int64_t stride) {
    int y = norm(name + ".bn1", {x}, in);
    y = convolution(name + ".conv1", y, {.in = in, .out = out});
    y = norm(name + ".bn2", {y}, out, name + ".prelu");
    y = convolution(name + ".conv2", y, {.in = out, .out = out, .stride = stride});
    int shortcut = x;
    if (stride != 1 || in != out) {
      shortcut =
          convolution(name + ".downsample.0", x, {.in = in, .out = out, .kernel = 1, .stride = stride, .padding = 0});
      shortcut = norm(name + ".downsample.1", {shortcut}, out);
    }
    return norm(name + ".bn3", {y, shortcut}, out);
  }

  ModelSpec model;

 private:
  bool synchronized_;
};

}  // namespace

ModelSpec make_iresnet(const ModelConfig& config, const ImageShape& image) {
  const std::array<int, 4> blocks = blocks_of(config.type);
  IResNetBuilder builder(image, config.synchronized_norms);
  ModelSpec& model = builder.model;
  const int stem = builder.convolution("conv1", 0, {.in = image.channels, .out = 64});
  builder.norm("bn1", {stem}, 64, "prelu");
  std::int64_t in = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t out = std::int64_t{64} << stage;
    for (int block = 0; block < blocks[static_cast<std::size_t>(stage)]; ++block) {
      model.begin_block();
      builder.block(fmt::format("layer{}.{}", stage + 1, block), model.last_value(), in, out, block == 0 ? 2 : 1);
      in = out;
    }
  }
  model.end_blocks();
  builder.norm("bn2", {model.last_value()}, in);
  // This reads the image in NHWC order, while the columns of InsightFace's fc.weight are in the order channel, row,
  // column.
  model.then("flatten", Flatten::spec());
  if (config.dropout > 0) model.then("dropout", Dropout::spec(config.dropout));
  model.then("fc", Linear::spec({.in = model.sample(model.last_value()).numel(), .out = config.embedding}));
  model.then(
      "features",
      BatchNorm::spec({.channels = config.embedding, .fixed_scale = true, .synchronized = config.synchronized_norms}));
  return std::move(model);
}

}  // namespace heddle
