// Random changes to training images that keep the person. The draws depend on (seed, step, place in the global
// batch) only, and each kind has its own: turning one on does not change another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/scalars/random.h"
#include "framework/tensors/image_shape.h"

namespace heddle {

struct AugmentationConfig {
  double flip = 0.5;
  std::int64_t shift = 0;
  double rotation = 0;
  double scale = 0;
  double crop = 0;
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;
  double gray = 0;
  double jpeg = 0;
  std::vector<std::int64_t> jpeg_quality = {30, 95};
  double erase = 0;
  std::vector<double> erase_area{};  ///< none: the sides are drawn, a tenth to two fifths of the image's
  std::vector<double> erase_ratio{};
};

class Describer;
void describe(Describer& d, AugmentationConfig& config);
/// InputError if keys do not agree with each other.
void check(const AugmentationConfig& config);

/// Changes one image in place: rows of interleaved channels, values about -1 .. 1. Pixels that move in from outside
/// repeat the border. Colours change on images of three channels only.
void augment(const AugmentationConfig& config, const ImageShape& shape, RandomStream draws, std::span<float> pixels);

/// Mirrors every image of [n, height, width, channels] left to right, in place.
void flip_images(const ImageShape& shape, std::span<float> nhwc);

}  // namespace heddle
