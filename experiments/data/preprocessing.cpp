#include "experiments/data/preprocessing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "experiments/data/resize.h"
#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {
namespace {

void check_numbers(const char* key, const std::vector<double>& numbers, std::int64_t channels) {
  if (numbers.size() != 1 && static_cast<std::int64_t>(numbers.size()) != channels)
    fail<InputError>("data.preprocessing.{}: expected one number{}, got {}", key,
                     channels == 1 ? "" : " or one for each of the 3 channels", numbers.size());
}

}  // namespace

void describe(Describer& d, PreprocessingConfig& c) {
  d.field(
      "crop", c.crop, between(0, 65'535),
      "side in pixels of the square that is cut out of the centre of each image before it is resized; 0: all of it");
  d.field("scaled_decoding", c.scaled_decoding,
          "JPEG files of at least twice the size that is needed are decoded at a half, a quarter or an eighth of their "
          "size, which is faster and blurs a little");
  choice(d, "colour", c.colour, "the order of the colours that the network takes");
  d.field("mean", c.mean, between(-1000, 1000), between(1, 3),
          "subtracted from pixel values from 0 to 1: one number, or one for each channel in the network's order");
  d.field("scale", c.scale, between(-1000, 1000), between(1, 3),
          "factor after the subtraction: pixel values become (x - mean) * scale");
}

Preprocessing::Preprocessing(const ImageShape& image, PreprocessingConfig config)
    : image_(image), config_(std::move(config)) {
  check_numbers("mean", config_.mean, image.channels);
  check_numbers("scale", config_.scale, image.channels);
  if (std::find(config_.scale.begin(), config_.scale.end(), 0.0) != config_.scale.end())
    fail<InputError>("data.preprocessing.scale: expected numbers other than 0: with 0 all images are equal");
  if (config_.colour == ColourOrder::bgr && image.channels != 3)
    fail<InputError>("data.preprocessing.colour: \"bgr\" needs images of 3 channels, data.image has {}",
                     image.channels);
}

void Preprocessing::check_size(int height, int width, std::string_view name) const {
  if (config_.crop > std::min(height, width))
    fail<InputError>("image \"{}\": data.preprocessing.crop of {} x {} pixels is larger than the image of {} x {}",
                     name, config_.crop, config_.crop, height, width);
}

void Preprocessing::apply(std::span<const std::uint8_t> encoded, std::string_view name, std::span<float> pixels) const {
  resize(encoded, name, pixels);
  normalise(pixels);
}

void Preprocessing::apply(Image decoded, std::string_view name, std::span<float> pixels) const {
  resize(std::move(decoded), name, pixels);
  normalise(pixels);
}

int Preprocessing::reduction(const ImageHeader& header) const {
  if (!config_.scaled_decoding || header.format != ImageFormat::jpeg) return 1;
  const std::int64_t shorter = config_.crop > 0 ? config_.crop : std::min(header.height, header.width);
  int reduction = 1;
  while (reduction < 8 && shorter >= 2 * reduction * std::max(image_.height, image_.width)) reduction *= 2;
  return reduction;
}

void Preprocessing::resize(std::span<const std::uint8_t> encoded, std::string_view name,
                           std::span<float> pixels) const {
  int divisor = 1;
  if (config_.scaled_decoding || config_.crop > 0) {
    const ImageHeader header = decode_image_header(encoded, encoded.size(), name);
    check_size(header.height, header.width, name);
    divisor = reduction(header);
  }
  resize(decode_image(encoded, name, divisor, static_cast<int>(config_.crop)), divisor, pixels);
}

void Preprocessing::resize(Image decoded, std::string_view name, std::span<float> pixels) const {
  check_size(decoded.height, decoded.width, name);
  resize(std::move(decoded), 1, pixels);
}

void Preprocessing::resize(Image decoded, int divisor, std::span<float> pixels) const {
  decoded = with_channels(std::move(decoded), static_cast<int>(image_.channels));
  const auto height = static_cast<int>(image_.height);
  const auto width = static_cast<int>(image_.width);
  if (config_.crop == 0) return resize_to_floats(decoded, height, width, pixels);
  const double crop = static_cast<double>(config_.crop) / divisor;
  // A crop begins with a whole pixel; that of a reduced image may lie between two.
  const auto begin = [&](int size) { return divisor == 1 ? std::floor((size - crop) / 2) : (size - crop) / 2; };
  resize_to_floats(decoded, {.left = begin(decoded.width), .top = begin(decoded.height), .width = crop, .height = crop},
                   height, width, pixels);
}

void Preprocessing::normalise(std::span<float> pixels) const {
  static const PreprocessingConfig standard;
  if (config_.mean == standard.mean && config_.scale == standard.scale && config_.colour == standard.colour) return;
  const auto channels = static_cast<std::size_t>(image_.channels);
  std::array<float, 3> factor{};
  std::array<float, 3> offset{};
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = config_.mean[config_.mean.size() == 1 ? 0 : c];
    const double scale = config_.scale[config_.scale.size() == 1 ? 0 : c];
    factor[c] = static_cast<float>(0.5 * scale);
    offset[c] = static_cast<float>((0.5 - mean) * scale);
  }
  for (std::size_t i = 0; i < pixels.size(); i += channels) {
    if (config_.colour == ColourOrder::bgr) std::swap(pixels[i], pixels[i + 2]);
    for (std::size_t c = 0; c < channels; ++c) pixels[i + c] = pixels[i + c] * factor[c] + offset[c];
  }
}

}  // namespace heddle
