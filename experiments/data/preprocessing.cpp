#include "experiments/data/preprocessing.h"

#include <algorithm>
#include <array>
#include <utility>

#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {
namespace {

Image centre_crop(const Image& image, int size) {
  Image cut{.height = size, .width = size, .channels = image.channels, .pixels = {}};
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t row = static_cast<std::size_t>(size) * channels;
  cut.pixels.resize(static_cast<std::size_t>(size) * row);
  const auto left = static_cast<std::size_t>((image.width - size) / 2);
  const auto top = static_cast<std::size_t>((image.height - size) / 2);
  for (std::size_t y = 0; y < static_cast<std::size_t>(size); ++y)
    std::copy_n(&image.pixels[((top + y) * static_cast<std::size_t>(image.width) + left) * channels], row,
                &cut.pixels[y * row]);
  return cut;
}

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
  choice(d, "colour", c.colour, "the order of the colours that the network takes");
  d.field("mean", c.mean, between(-1000, 1000), between(1, 3),
          "what is subtracted from pixels from 0 to 1: one number, or one for each channel in the network's order");
  d.field("scale", c.scale, between(-1000, 1000), between(1, 3),
          "the factor that follows: pixels become (x - mean) * scale");
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
    fail<InputError>("image \"{}\": {} x {} pixels; data.preprocessing.crop needs at least {} x {}", name, height,
                     width, config_.crop, config_.crop);
}

void Preprocessing::apply(Image decoded, std::string_view name, std::span<float> pixels) const {
  resize(std::move(decoded), name, pixels);
  normalise(pixels);
}

void Preprocessing::resize(Image decoded, std::string_view name, std::span<float> pixels) const {
  check_size(decoded.height, decoded.width, name);
  if (config_.crop > 0) decoded = centre_crop(decoded, static_cast<int>(config_.crop));
  decoded = with_channels(std::move(decoded), static_cast<int>(image_.channels));
  resize_to_floats(decoded, static_cast<int>(image_.height), static_cast<int>(image_.width), pixels);
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
