// From a decoded image to the numbers that a network takes: the same for training, evaluation and embedding.
//
//   decoded image -> centre crop -> channels -> size           resize(): RGB from -1 to 1, which augmentation changes
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

  /// All steps, for one image. `name` stands in error messages.
  void apply(Image decoded, std::string_view name, std::span<float> pixels) const;

  /// The first steps. InputError if the crop is larger than the image.
  void resize(Image decoded, std::string_view name, std::span<float> pixels) const;
  /// The last steps, for one image or several that follow each other, in place.
  void normalise(std::span<float> pixels) const;
  /// InputError if the crop is larger than the image.
  void check_size(int height, int width, std::string_view name) const;

 private:
  ImageShape image_;
  PreprocessingConfig config_;
};

}  // namespace heddle
