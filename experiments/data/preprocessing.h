// From a decoded image to the numbers that a network takes: the same for training, evaluation and embedding.
//
//   encoded image -> decoded image
//                 -> centre crop -> channels -> size           resize(): RGB from -1 to 1, which augmentation changes
//                 -> order of colours -> (x - mean) * scale    normalise()
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "experiments/data/image.h"
#include "framework/description/enum_table.h"
#include "framework/tensors/image_shape.h"

namespace heddle {

enum class ColourOrder { rgb, bgr };

template <>
inline constexpr auto enum_names<ColourOrder> = enum_table<ColourOrder>({
    {ColourOrder::rgb, "rgb"},
    {ColourOrder::bgr, "bgr"},
});

struct PreprocessingConfig {
  std::int64_t crop = 0;
  bool scaled_decoding = false;
  ColourOrder colour = ColourOrder::rgb;
  std::vector<double> mean = {0.5};  ///< of pixels from 0 to 1: one number, or one for each channel
  std::vector<double> scale = {2};

  bool operator==(const PreprocessingConfig&) const = default;
};

class Describer;
void describe(Describer& d, PreprocessingConfig& config);

class Preprocessing {
 public:
  /// The default configuration gives (x / 255 - 0.5) / 0.5. InputError if the configuration does not fit the channels.
  explicit Preprocessing(const ImageShape& image, PreprocessingConfig config = {});

  /// What the network takes: height x width rows of interleaved channels.
  const ImageShape& image() const { return image_; }
  const PreprocessingConfig& config() const { return config_; }

  /// All steps, for an encoded image. Error messages contain `name`. InputError if the image is broken or smaller
  /// than the crop.
  void apply(std::span<const std::uint8_t> encoded, std::string_view name, std::span<float> pixels) const;
  /// All steps but decoding, for an image that is decoded already; `scaled_decoding` has no effect on it.
  void apply(Image decoded, std::string_view name, std::span<float> pixels) const;

  /// The steps before augmentation.
  void resize(std::span<const std::uint8_t> encoded, std::string_view name, std::span<float> pixels) const;
  void resize(Image decoded, std::string_view name, std::span<float> pixels) const;
  /// The last steps, for one image or several that follow each other, in place.
  void normalise(std::span<float> pixels) const;
  /// InputError if the crop is larger than the image.
  void check_size(int height, int width, std::string_view name) const;

 private:
  int reduction(const ImageHeader& header) const;
  /// The sides of the image were divided by `divisor` while it was decoded.
  void resize(Image decoded, int divisor, std::span<float> pixels) const;

  ImageShape image_;
  PreprocessingConfig config_;
};

}  // namespace heddle
