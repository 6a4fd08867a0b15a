#include "framework/error.h"
#include "layers/modules/activation.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "models/models.h"

namespace heddle {

namespace {

class MobileFaceNetBuilder {
 public:
  MobileFaceNetBuilder(const ImageShape& image, bool synchronized)
      : model(shape_of(image)), synchronized_(synchronized) {}

  /// Convolution, norm and PReLU.
  void convolution(const std::string& name, const ConvolutionLayerOptions& options) {
    model.then(name + ".layers.0", convolution_spec(options));
    model.then(name + ".layers.1", BatchNorm::spec({.channels = options.out,
                                                    .activation = NormActivation::prelu,
                                                    .slope_name = name + ".layers.2",
                                                    .synchronized = synchronized_}));
  }
  /// Convolution and norm, plus the shortcut if there is one.
  void linear_convolution(const std::string& name, const ConvolutionLayerOptions& options, int shortcut = -1) {
    std::vector<int> inputs{model.then(name + ".layers.0", convolution_spec(options))};
    if (shortcut >= 0) inputs.push_back(shortcut);
    model.apply(name + ".layers.1",
                BatchNorm::spec({.channels = options.out, .synchronized = synchronized_}, shortcut >= 0), inputs);
  }
  /// A 1 x 1 convolution to `inner` channels, a depthwise 3 x 3 convolution, and a 1 x 1 convolution to `out` channels.
  void depthwise(const std::string& name, std::int64_t inner, std::int64_t out, std::int64_t stride) {
    model.begin_block();
    const int x = model.last_value();
    const std::int64_t in = model.sample(x).back();
    convolution(name + ".layers.0", {.in = in, .out = inner, .kernel = 1, .padding = 0});
    convolution(name + ".layers.1", {.in = inner, .out = inner, .stride = stride, .groups = inner});
    linear_convolution(name + ".layers.2", {.in = inner, .out = out, .kernel = 1, .padding = 0}, stride == 1 ? x : -1);
  }
  void residuals(const std::string& name, std::int64_t blocks, std::int64_t inner) {
    const std::int64_t width = model.sample(model.last_value()).back();
    for (std::int64_t block = 0; block < blocks; ++block)
      depthwise(fmt::format("{}.layers.{}", name, block), inner, width, 1);
  }

  ModelSpec model;

 private:
  /// With InsightFace's initial weights.
  static LayerSpecPointer convolution_spec(ConvolutionLayerOptions options) {
    options.deviation = kaiming_deviation(options.out, options.kernel);
    return Convolution::spec(options);
  }

  bool synchronized_;
};

}  // namespace

ModelSpec make_mobilefacenet(const ModelConfig& config, const ImageShape& image) {
  if (image.height != image.width)
    fail<InputError>("mobilefacenet: expected square images, because its last kernel is square, got {} x {}",
                     image.height, image.width);
  MobileFaceNetBuilder builder(image, config.synchronized_norms);
  ModelSpec& model = builder.model;
  const auto& blocks = config.mobilefacenet.blocks;
  const std::int64_t narrow = 64 * config.mobilefacenet.scale;
  const std::int64_t wide = 128 * config.mobilefacenet.scale;
  constexpr std::int64_t separate = 512;
  builder.convolution("layers.0", {.in = image.channels, .out = narrow, .stride = 2});
  if (blocks[0] == 1)
    builder.convolution("layers.1", {.in = narrow, .out = narrow, .groups = 64});
  else
    builder.residuals("layers.1", blocks[0], 128);
  // As in InsightFace, the widths within the blocks do not grow with the scale.
  builder.depthwise("layers.2", 128, narrow, 2);
  builder.residuals("layers.3", blocks[1], 128);
  builder.depthwise("layers.4", 256, wide, 2);
  builder.residuals("layers.5", blocks[2], 256);
  builder.depthwise("layers.6", 512, wide, 2);
  builder.residuals("layers.7", blocks[3], 256);
  model.end_blocks();
  builder.convolution("conv_sep", {.in = wide, .out = separate, .kernel = 1, .padding = 0});
  // A global depthwise convolution: one weight per pixel and channel.
  const std::int64_t size = model.sample(model.last_value())[0];
  builder.linear_convolution("features.layers.0",
                             {.in = separate, .out = separate, .kernel = size, .padding = 0, .groups = separate});
  model.then("features.layers.1", Flatten::spec());
  if (config.dropout > 0) model.then("dropout", Dropout::spec(config.dropout));
  model.then("features.layers.2", Linear::spec({.in = separate,
                                                .out = config.embedding,
                                                .bias = false,
                                                .deviation = kaiming_deviation(config.embedding, 1)}));
  model.then("features.layers.3",
             BatchNorm::spec({.channels = config.embedding, .synchronized = config.synchronized_norms}));
  return std::move(model);
}

}  // namespace heddle
