#include <array>
#include <span>

#include "framework/error.h"
#include "layers/modules/activation.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "layers/modules/pooling.h"
#include "models/models.h"

namespace heddle {

namespace {

constexpr std::int64_t max_pool = 0;

/// Output channels of the convolutions, with the poolings between them.
std::span<const std::int64_t> features_of(ModelType type) {
  static constexpr std::array<std::int64_t, 13> vgg11{64,  max_pool, 128,      max_pool, 256, 256,     max_pool,
                                                      512, 512,      max_pool, 512,      512, max_pool};
  static constexpr std::array<std::int64_t, 15> vgg13{64,       64,  max_pool, 128,      128, max_pool, 256,     256,
                                                      max_pool, 512, 512,      max_pool, 512, 512,      max_pool};
  static constexpr std::array<std::int64_t, 18> vgg16{
      64, 64, max_pool, 128, 128, max_pool, 256, 256, 256, max_pool, 512, 512, 512, max_pool, 512, 512, 512, max_pool};
  static constexpr std::array<std::int64_t, 21> vgg19{64,  64,       max_pool, 128,      128, max_pool, 256,
                                                      256, 256,      256,      max_pool, 512, 512,      512,
                                                      512, max_pool, 512,      512,      512, 512,      max_pool};
  switch (type) {
    case ModelType::vgg11:
      return vgg11;
    case ModelType::vgg13:
      return vgg13;
    case ModelType::vgg16:
      return vgg16;
    case ModelType::vgg19:
      return vgg19;
    default:
      fail("vgg: model type {} belongs to another family", static_cast<int>(type));
  }
}

constexpr double linear_deviation = 0.01;  // torchvision's initial weights

/// torchvision's numbering, in which a convolution, its norm, its ReLU and a pooling count one each.
void append_features(ModelSpec& model, const ModelConfig& config, std::int64_t in) {
  int index = 0;
  const auto next = [&index] { return fmt::format("features.{}", index++); };
  for (const std::int64_t out : features_of(config.type)) {
    if (out == max_pool) {
      model.then(next(), Pool::spec(PoolOp::max, {.kernel = {2, 2}, .stride = {2, 2}}));
      continue;
    }
    model.then(next(), Convolution::spec({.in = in, .out = out, .bias = true}));
    if (config.vgg.norms) {
      model.then(next(),
                 BatchNorm::spec(
                     {.channels = out, .activation = NormActivation::relu, .synchronized = config.synchronized_norms}));
      ++index;  // the ReLU, which is part of the norm here
    } else {
      model.then(next(), Activation::spec(ActivationKind::relu));
    }
    in = out;
  }
}

}  // namespace

ModelSpec make_vgg(const ModelConfig& config, const ImageShape& image) {
  ModelSpec model(shape_of(image));
  append_features(model, config, image.channels);
  // This reads the image in NHWC order, while the columns of torchvision's classifier.0.weight are in the order
  // channel, row, column.
  model.then("flatten", Flatten::spec());
  std::int64_t in = model.sample(model.last_value())[0];
  int index = 0;
  for (const std::int64_t hidden : config.vgg.hidden) {
    const std::string name = fmt::format("classifier.{}", index);
    model.then(name, Linear::spec({.in = in, .out = hidden, .deviation = linear_deviation}));
    model.then(fmt::format("classifier.{}", index + 1), Activation::spec(ActivationKind::relu));
    if (config.dropout > 0) model.then(fmt::format("classifier.{}", index + 2), Dropout::spec(config.dropout));
    index += 3;
    in = hidden;
  }
  model.then(fmt::format("classifier.{}", index),
             Linear::spec({.in = in, .out = config.embedding, .deviation = linear_deviation}));
  return model;
}

}  // namespace heddle
