#include "experiments/data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "framework/description/describe.h"

namespace heddle {
namespace {

/// Where the pixel (x, y) of the result comes from, about the image's centre.
struct Warp {
  double cosine = 1;
  double sine = 0;
  double move_x = 0;
  double move_y = 0;
  bool mirrored = false;
};

void flip(const ImageShape& shape, float* pixels) {
  const std::int64_t channels = shape.channels;
  for (std::int64_t y = 0; y < shape.height; ++y) {
    float* const row = pixels + y * shape.width * channels;
    for (std::int64_t x = 0; x < shape.width / 2; ++x)
      std::swap_ranges(row + x * channels, row + (x + 1) * channels, row + (shape.width - 1 - x) * channels);
  }
}

void shift(const ImageShape& shape, std::int64_t dx, std::int64_t dy, std::span<float> pixels) {
  const std::vector<float> source(pixels.begin(), pixels.end());
  const std::int64_t channels = shape.channels;
  for (std::int64_t y = 0; y < shape.height; ++y) {
    const float* const from = &source[static_cast<std::size_t>(std::clamp<std::int64_t>(y + dy, 0, shape.height - 1) *
                                                               shape.width * channels)];
    float* const to = &pixels[static_cast<std::size_t>(y * shape.width * channels)];
    for (std::int64_t x = 0; x < shape.width; ++x)
      std::copy_n(from + std::clamp<std::int64_t>(x + dx, 0, shape.width - 1) * channels, channels, to + x * channels);
  }
}

void warp(const ImageShape& shape, const Warp& w, std::span<float> pixels) {
  const std::vector<float> source(pixels.begin(), pixels.end());
  const std::int64_t channels = shape.channels;
  const double center_x = 0.5 * static_cast<double>(shape.width - 1);
  const double center_y = 0.5 * static_cast<double>(shape.height - 1);
  const auto last_x = static_cast<float>(shape.width - 1);
  const auto last_y = static_cast<float>(shape.height - 1);
  float* target = pixels.data();
  for (std::int64_t y = 0; y < shape.height; ++y) {
    const double v = static_cast<double>(y) - center_y;
    for (std::int64_t x = 0; x < shape.width; ++x, target += channels) {
      const double u = (static_cast<double>(x) - center_x) * (w.mirrored ? -1 : 1);
      const float from_x =
          std::clamp(static_cast<float>(center_x + w.cosine * u - w.sine * v + w.move_x), 0.0F, last_x);
      const float from_y =
          std::clamp(static_cast<float>(center_y + w.sine * u + w.cosine * v + w.move_y), 0.0F, last_y);
      const auto x0 = static_cast<std::int64_t>(from_x);
      const auto y0 = static_cast<std::int64_t>(from_y);
      const std::int64_t right = x0 + 1 < shape.width ? channels : 0;
      const std::int64_t below = y0 + 1 < shape.height ? shape.width * channels : 0;
      const float fx = from_x - static_cast<float>(x0);
      const float fy = from_y - static_cast<float>(y0);
      const float* const at = &source[static_cast<std::size_t>((y0 * shape.width + x0) * channels)];
      for (std::int64_t c = 0; c < channels; ++c) {
        const float upper = at[c] + fx * (at[right + c] - at[c]);
        const float lower = at[below + c] + fx * (at[below + right + c] - at[below + c]);
        target[c] = upper + fy * (lower - upper);
      }
    }
  }
}

void erase(const ImageShape& shape, double at_x, double at_y, double part_x, double part_y, std::span<float> pixels) {
  const auto width = static_cast<std::int64_t>(part_x * static_cast<double>(shape.width));
  const auto height = static_cast<std::int64_t>(part_y * static_cast<double>(shape.height));
  const auto x = static_cast<std::int64_t>(at_x * static_cast<double>(shape.width - width + 1));
  const auto y = static_cast<std::int64_t>(at_y * static_cast<double>(shape.height - height + 1));
  for (std::int64_t row = y; row < y + height; ++row)
    std::fill_n(&pixels[static_cast<std::size_t>((row * shape.width + x) * shape.channels)], width * shape.channels,
                0.0F);
}

}  // namespace

void describe(Describer& d, AugmentationConfig& c) {
  d.field("flip", c.flip, between(0, 1), "probability that a training image is mirrored");
  d.field("shift", c.shift, between(0, 4096), "the largest shift in pixels, in each direction");
  d.field("rotation", c.rotation, between(0, 180), "the largest rotation in degrees, in each direction");
  d.field("scale", c.scale, from_to_below(0, 1),
          "the largest relative change of size: 0.1 gives factors from 0.9 to 1.1");
  d.field("brightness", c.brightness, between(0, 1), "the largest change of brightness, for pixels from 0 to 1");
  d.field("contrast", c.contrast, between(0, 1),
          "the largest relative change of contrast: 0.2 gives factors from 0.8 to 1.2");
  d.field("erase", c.erase, between(0, 1),
          "probability that a rectangle becomes gray, with sides of a tenth to two fifths of the image's");
}

void augment(const AugmentationConfig& config, const ImageShape& shape, RandomStream draws, std::span<float> pixels) {
  // All are drawn, used or not, so that one option never changes the draws of another.
  const auto both_ways = [&draws] { return 2 * draws.uniform() - 1; };
  const bool mirrored = draws.uniform() < config.flip;
  const auto moves = static_cast<std::uint64_t>(2 * config.shift + 1);
  const std::int64_t dx = static_cast<std::int64_t>(draws.below(moves)) - config.shift;
  const std::int64_t dy = static_cast<std::int64_t>(draws.below(moves)) - config.shift;
  const double angle = both_ways() * config.rotation * std::numbers::pi / 180;
  const double scale = 1 + both_ways() * config.scale;
  const double brightness = both_ways() * config.brightness;
  const double contrast = 1 + both_ways() * config.contrast;
  const bool erased = draws.uniform() < config.erase;
  const double part_x = 0.1 + 0.3 * draws.uniform();
  const double part_y = 0.1 + 0.3 * draws.uniform();
  const double at_x = draws.uniform();
  const double at_y = draws.uniform();

  if (angle != 0 || scale != 1) {
    warp(shape,
         {.cosine = std::cos(angle) / scale,
          .sine = std::sin(angle) / scale,
          .move_x = static_cast<double>(mirrored ? -dx : dx),
          .move_y = static_cast<double>(dy),
          .mirrored = mirrored},
         pixels);
  } else {
    if (mirrored) flip(shape, pixels.data());
    if (dx != 0 || dy != 0) shift(shape, dx, dy, pixels);
  }
  if (brightness != 0 || contrast != 1) {
    const auto gain = static_cast<float>(contrast);
    const auto offset = static_cast<float>(2 * brightness);
    for (float& pixel : pixels) pixel = pixel * gain + offset;
  }
  if (erased) erase(shape, at_x, at_y, part_x, part_y, pixels);
}

void flip_images(const ImageShape& shape, std::span<float> nhwc) {
  for (std::size_t at = 0; at < nhwc.size(); at += static_cast<std::size_t>(shape.size())) flip(shape, &nhwc[at]);
}

}  // namespace heddle
