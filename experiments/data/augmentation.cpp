#include "experiments/data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <tuple>
#include <utility>
#include <vector>

#include "experiments/data/codecs/image_codecs.h"
#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {
namespace {

/// The place in the source from which pixel (x, y) of the result is taken, relative to the image's centre.
struct Warp {
  double cosine = 1;
  double sine = 0;
  double move_x = 0;
  double move_y = 0;
  bool mirrored = false;
};

/// Where pixels come from that keep their size: the column x + dx and the row y + dy of the image or of its mirror
/// image.
struct Move {
  bool mirrored = false;
  std::int64_t dx = 0;
  std::int64_t dy = 0;
};

/// Values x become gain * x + offset.
struct Tone {
  float gain = 1;
  float offset = 0;

  bool changes() const { return gain != 1 || offset != 0; }
  float of(float value) const { return value * gain + offset; }
  void apply(std::span<float> values) const {
    for (float& value : values) value = of(value);
  }
};

using Four = float __attribute__((vector_size(16)));

/// Copies a row of colours from right to left with another tone. The fourth element of each vector belongs to the next
/// pixel: it is overwritten by the next one, so `mirror` has one element more than the row.
void mirror_row_of_colours(std::int64_t width, const Tone& tone, const float* row, float* mirror) {
  for (std::int64_t c = 0; c < 3; ++c) mirror[c] = tone.of(row[3 * (width - 1) + c]);
  for (std::int64_t x = 1; x < width; ++x) {
    Four pixel;
    std::memcpy(&pixel, row + 3 * (width - 1 - x), sizeof pixel);
    pixel = pixel * tone.gain + tone.offset;
    std::memcpy(mirror + 3 * x, &pixel, sizeof pixel);
  }
}

/// Moves an image and changes its tone in one pass, row by row in place, since it does not fit into the fastest cache.
void move(const ImageShape& shape, const Move& how, const Tone& tone, std::span<float> pixels) {
  const auto [mirrored, dx, dy] = how;
  if (!mirrored && dx == 0 && dy == 0) {
    if (tone.changes()) tone.apply(pixels);
    return;
  }
  thread_local std::vector<float> kept;
  const std::int64_t channels = shape.channels;
  const std::int64_t size = shape.width * channels;
  kept.resize(static_cast<std::size_t>(size) + 1);
  float* const row = kept.data();
  // Pixels from `begin` to `end` have one in the image from which they come; the others repeat the border.
  const std::int64_t begin = std::clamp<std::int64_t>(-dx, 0, shape.width);
  const std::int64_t end = std::clamp<std::int64_t>(shape.width - dx, begin, shape.width);
  for (std::int64_t i = 0; i < shape.height; ++i) {
    const std::int64_t y = dy < 0 ? shape.height - 1 - i : i;  // a row is read before it is overwritten
    const float* const from =
        &pixels[static_cast<std::size_t>(std::clamp<std::int64_t>(y + dy, 0, shape.height - 1) * size)];
    if (mirrored && channels == 3)
      mirror_row_of_colours(shape.width, tone, from, row);
    else
      for (std::int64_t k = 0; k < size; ++k) row[k] = tone.of(from[mirrored ? size - 1 - k : k]);
    float* const to = &pixels[static_cast<std::size_t>(y * size)];
    const auto fill = [&](std::int64_t first, std::int64_t last, const float* pixel) {
      for (std::int64_t x = first; x < last; ++x)
        for (std::int64_t c = 0; c < channels; ++c) to[x * channels + c] = pixel[c];
    };
    fill(0, begin, row);
    if (begin < end) std::copy_n(row + (begin + dx) * channels, (end - begin) * channels, to + begin * channels);
    fill(end, shape.width, row + (shape.width - 1) * channels);
  }
}

/// A copy of the pixels, in memory that the calling thread keeps.
std::span<const float> kept_copy(std::span<const float> pixels) {
  thread_local std::vector<float> copy;
  copy.assign(pixels.begin(), pixels.end());
  return copy;
}

void warp(const ImageShape& shape, const Warp& w, std::span<float> pixels) {
  const std::span<const float> source = kept_copy(pixels);
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

/// Turns the colours about the axis of grays and stretches them from it; brightness, as luma, stays.
void change_chroma(double factor, double turn, std::span<float> rgb) {
  constexpr float red = 0.299F;
  constexpr float green = 0.587F;
  constexpr float blue = 0.114F;
  // The axes of PAL's colours, in which equal angles look alike.
  constexpr float blue_axis = 0.492F;
  constexpr float red_axis = 0.877F;
  const auto along = static_cast<float>(factor * std::cos(turn));
  const auto across = static_cast<float>(factor * std::sin(turn));
  for (std::size_t i = 0; i < rgb.size(); i += 3) {
    const float luma = red * rgb[i] + green * rgb[i + 1] + blue * rgb[i + 2];
    const float u = blue_axis * (rgb[i + 2] - luma);
    const float v = red_axis * (rgb[i] - luma);
    rgb[i] = luma + (across * u + along * v) / red_axis;
    rgb[i + 2] = luma + (along * u - across * v) / blue_axis;
    rgb[i + 1] = (luma - red * rgb[i] - blue * rgb[i + 2]) / green;
  }
}

/// What is left of the image after it was stored as a JPEG.
void compress(const ImageShape& shape, int quality, std::span<float> pixels) {
  Image image{.height = static_cast<int>(shape.height),
              .width = static_cast<int>(shape.width),
              .channels = static_cast<int>(shape.channels),
              .pixels = std::vector<std::uint8_t>(pixels.size())};
  std::transform(pixels.begin(), pixels.end(), image.pixels.begin(),
                 [](float x) { return static_cast<std::uint8_t>(std::clamp(x * 127.5F + 128.0F, 0.0F, 255.0F)); });
  image = decode_jpeg(encode_jpeg(image, quality), "augmentation", 1);
  std::transform(image.pixels.begin(), image.pixels.end(), pixels.begin(),
                 [](std::uint8_t x) { return (static_cast<float>(x) - 127.5F) / 127.5F; });
}

/// A rectangle, in pixels, and the share of the way along which it is moved.
struct Rectangle {
  std::int64_t width = 0;
  std::int64_t height = 0;
  double at_x = 0;
  double at_y = 0;
};

void erase(const ImageShape& shape, const Rectangle& r, std::span<float> pixels) {
  const auto x = static_cast<std::int64_t>(r.at_x * static_cast<double>(shape.width - r.width + 1));
  const auto y = static_cast<std::int64_t>(r.at_y * static_cast<double>(shape.height - r.height + 1));
  for (std::int64_t row = y; row < y + r.height; ++row)
    std::fill_n(&pixels[static_cast<std::size_t>((row * shape.width + x) * shape.channels)], r.width * shape.channels,
                0.0F);
}

double between_draws(const std::vector<double>& bounds, double draw) {
  return bounds[0] + (bounds[1] - bounds[0]) * draw;
}

/// Width and height of a rectangle with a drawn area and ratio, at most those of the image.
std::pair<std::int64_t, std::int64_t> drawn_sides(const AugmentationConfig& config, const ImageShape& shape,
                                                  double area_draw, double ratio_draw) {
  const std::vector<double> ratios = config.erase_ratio.empty() ? std::vector<double>{0.3, 3.3} : config.erase_ratio;
  const double area = between_draws(config.erase_area, area_draw) * static_cast<double>(shape.height * shape.width);
  // Drawn evenly in its logarithm, so that flat and tall ones come equally often.
  const double ratio = std::exp(between_draws({std::log(ratios[0]), std::log(ratios[1])}, ratio_draw));
  return {std::min<std::int64_t>(std::llround(std::sqrt(area / ratio)), shape.width),
          std::min<std::int64_t>(std::llround(std::sqrt(area * ratio)), shape.height)};
}

template <class T>
void check_bounds(const char* key, const std::vector<T>& bounds) {
  if (bounds.size() != 2)
    fail<InputError>("data.augmentation.{}: expected a smallest and a largest number, got {}", key, bounds.size());
  if (bounds[0] > bounds[1])
    fail<InputError>("data.augmentation.{}: expected the smaller number first, got [{}, {}]", key, bounds[0],
                     bounds[1]);
}

}  // namespace

void describe(Describer& d, AugmentationConfig& c) {
  d.field("flip", c.flip, between(0, 1), "probability that a training image is mirrored");
  d.field("shift", c.shift, between(0, 4096), "the largest shift in pixels, in each direction");
  d.field("rotation", c.rotation, between(0, 180), "the largest rotation in degrees, in each direction");
  d.field("scale", c.scale, from_to_below(0, 1),
          "the largest relative change of size: 0.1 gives factors from 0.9 to 1.1");
  d.field("crop", c.crop, between(0, 1),
          "the share by which the image is enlarged before a part of the original size is cut out at a random place");
  d.field("brightness", c.brightness, between(0, 1), "the largest change of brightness, for pixels from 0 to 1");
  d.field("contrast", c.contrast, between(0, 1),
          "the largest relative change of contrast: 0.2 gives factors from 0.8 to 1.2");
  d.field("saturation", c.saturation, between(0, 1),
          "the largest relative change of saturation: 0.2 gives factors from 0.8 to 1.2");
  d.field("hue", c.hue, between(0, 0.5),
          "the largest rotation of the hue, as a share of the colour wheel, in each direction");
  d.field("gray", c.gray, between(0, 1), "probability that the image loses its colours");
  d.field("jpeg", c.jpeg, between(0, 1), "probability that the image is compressed as a JPEG and decoded again");
  d.field("jpeg_quality", c.jpeg_quality, between(1, 100), between(2, 2),
          "the lowest and the highest quality of that JPEG");
  d.field("erase", c.erase, between(0, 1),
          "probability that a rectangle becomes gray, with sides of a tenth to two fifths of the image's");
  d.field("erase_area", c.erase_area, between(0, 1), between(0, 2),
          "the smallest and the largest area of the rectangle, as a share of the image's; empty: its sides are drawn");
  d.field("erase_ratio", c.erase_ratio, between(0.01, 100), between(0, 2),
          "with erase_area: the smallest and the largest ratio of height to width; empty: 0.3 to 3.3");
}

void check(const AugmentationConfig& c) {
  check_bounds("jpeg_quality", c.jpeg_quality);
  if (!c.erase_area.empty()) check_bounds("erase_area", c.erase_area);
  if (!c.erase_ratio.empty()) check_bounds("erase_ratio", c.erase_ratio);
  if (c.erase_area.empty() && !c.erase_ratio.empty())
    fail<InputError>("data.augmentation.erase_ratio: has no effect without erase_area");
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
  // Later options draw after earlier ones, so that these draw as they always did.
  const double crop_x = both_ways();
  const double crop_y = both_ways();
  double saturation = 1 + both_ways() * config.saturation;
  const double turn = both_ways() * config.hue * 2 * std::numbers::pi;
  if (draws.uniform() < config.gray) saturation = 0;
  const bool compressed = draws.uniform() < config.jpeg;
  const double quality_draw = draws.uniform();
  const double area_draw = draws.uniform();
  const double ratio_draw = draws.uniform();

  const Tone tone{.gain = static_cast<float>(contrast), .offset = static_cast<float>(2 * brightness)};
  if (angle != 0 || scale != 1 || config.crop > 0) {
    const double enlarged = scale * (1 + config.crop);
    const double room = config.crop / (1 + config.crop) / 2;
    const double move_x = static_cast<double>(dx) + crop_x * room * static_cast<double>(shape.width);
    warp(shape,
         {.cosine = std::cos(angle) / enlarged,
          .sine = std::sin(angle) / enlarged,
          .move_x = mirrored ? -move_x : move_x,
          .move_y = static_cast<double>(dy) + crop_y * room * static_cast<double>(shape.height),
          .mirrored = mirrored},
         pixels);
    if (tone.changes()) tone.apply(pixels);
  } else {
    move(shape, {.mirrored = mirrored, .dx = dx, .dy = dy}, tone, pixels);
  }
  if (shape.channels == 3 && (saturation != 1 || turn != 0)) change_chroma(saturation, turn, pixels);
  if (compressed) {
    const auto qualities = static_cast<double>(config.jpeg_quality[1] - config.jpeg_quality[0] + 1);
    compress(shape, static_cast<int>(config.jpeg_quality[0]) + static_cast<int>(quality_draw * qualities), pixels);
  }
  if (erased) {
    Rectangle rectangle{.width = static_cast<std::int64_t>(part_x * static_cast<double>(shape.width)),
                        .height = static_cast<std::int64_t>(part_y * static_cast<double>(shape.height)),
                        .at_x = at_x,
                        .at_y = at_y};
    if (!config.erase_area.empty())
      std::tie(rectangle.width, rectangle.height) = drawn_sides(config, shape, area_draw, ratio_draw);
    erase(shape, rectangle, pixels);
  }
}

void flip_images(const ImageShape& shape, std::span<float> nhwc) {
  const auto size = static_cast<std::size_t>(shape.size());
  for (std::size_t at = 0; at < nhwc.size(); at += size) move(shape, {.mirrored = true}, {}, nhwc.subspan(at, size));
}

}  // namespace heddle
