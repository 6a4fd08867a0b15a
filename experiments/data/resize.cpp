#include "experiments/data/resize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace heddle {
namespace {

/// A part of an axis that is resized to `to` pixels. The part is `length` pixels from `begin` on; the axis has `size`.
struct Stretch {
  double begin = 0;
  double length = 0;
  int size = 0;
  int to = 0;
  bool operator==(const Stretch&) const = default;
};

/// The first input pixel of each output pixel on one axis, and the weights, which sum to 1.
struct Taps {
  Stretch stretch{};
  std::size_t count = 0;
  std::vector<std::size_t> first;
  std::vector<float> weights;

  std::size_t begin() const { return first.front(); }
  std::size_t size() const { return first.back() + count - first.front(); }
};

/// The taps that resize a part of an axis.
Taps triangle_taps(const Stretch& stretch) {
  const auto [begin, length, size, to] = stretch;
  const double scale = length / to;
  const double radius = std::max(1.0, scale);
  const int low = std::max(0, static_cast<int>(std::floor(begin)));
  const int high = std::min(size, static_cast<int>(std::ceil(begin + length)));
  const int count = std::min(high - low, static_cast<int>(2 * radius) + 2);
  Taps taps{.stretch = stretch, .count = static_cast<std::size_t>(count), .first = {}, .weights = {}};
  taps.first.resize(static_cast<std::size_t>(to));
  taps.weights.resize(static_cast<std::size_t>(to) * taps.count);
  for (int i = 0; i < to; ++i) {
    const double center = begin + (i + 0.5) * scale - 0.5;
    const int first = std::clamp(static_cast<int>(center - radius + 1), low, high - count);
    float* const weights = &taps.weights[static_cast<std::size_t>(i) * taps.count];
    double sum = 0;
    for (int k = 0; k < count; ++k) {
      const double weight = std::max(0.0, 1.0 - std::abs(first + k - center) / radius);
      weights[k] = static_cast<float>(weight);
      sum += weight;
    }
    for (int k = 0; k < count; ++k) weights[k] = static_cast<float>(weights[k] / sum);
    taps.first[static_cast<std::size_t>(i)] = static_cast<std::size_t>(first);
  }
  return taps;
}

/// What the calling thread keeps from image to image: buffers, and the taps, which are mostly the same.
struct Workspace {
  Taps across;
  Taps down;
  std::vector<float> source;
  std::vector<float> narrow;
};

const Taps& taps_of(const Stretch& stretch, Taps& kept) {
  if (kept.stretch != stretch) kept = triangle_taps(stretch);
  return kept;
}

using Four = float __attribute__((vector_size(16)));

/// Shrinks one row of colours. The fourth element of each vector belongs to the next pixel and is not used.
void shrink_row_of_colours(const Taps& taps, const std::vector<float>& source, float* target) {
  for (std::size_t x = 0; x < taps.first.size(); ++x) {
    const float* const first = &source[3 * (taps.first[x] - taps.begin())];
    const float* const weights = &taps.weights[x * taps.count];
    Four sum{};
    for (std::size_t k = 0; k < taps.count; ++k) {
      Four pixel;
      std::memcpy(&pixel, first + 3 * k, sizeof pixel);
      sum += weights[k] * pixel;
    }
    std::memcpy(target + 3 * x, &sum, 3 * sizeof(float));
  }
}

void shrink_row_of_grays(const Taps& taps, const std::vector<float>& source, float* target) {
  for (std::size_t x = 0; x < taps.first.size(); ++x) {
    const float* const first = &source[taps.first[x] - taps.begin()];
    const float* const weights = &taps.weights[x * taps.count];
    float sum = 0;
    for (std::size_t k = 0; k < taps.count; ++k) sum += weights[k] * first[k];
    target[x] = sum;
  }
}

/// Copies a part that keeps its size and consists of whole pixels.
void copy_part(const Image& image, std::size_t left, std::size_t top, int height, int width, std::span<float> pixels) {
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t row = static_cast<std::size_t>(width) * channels;
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    const std::uint8_t* const first =
        &image.pixels[((top + y) * static_cast<std::size_t>(image.width) + left) * channels];
    float* const target = &pixels[y * row];
    for (std::size_t i = 0; i < row; ++i) target[i] = (static_cast<float>(first[i]) - 127.5F) / 127.5F;
  }
}

}  // namespace

Image with_channels(Image image, int channels) {
  if (image.channels == channels) return image;
  Image result{.height = image.height, .width = image.width, .channels = channels, .pixels = {}};
  const std::size_t count = static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width);
  result.pixels.resize(count * static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < count; ++i) {
    if (channels == 3) {
      std::fill_n(&result.pixels[3 * i], 3, image.pixels[i]);
    } else {
      const std::uint8_t* const rgb = &image.pixels[3 * i];
      result.pixels[i] = static_cast<std::uint8_t>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
    }
  }
  return result;
}

void resize_to_floats(const Image& image, const Window& part, int height, int width, std::span<float> pixels) {
  if (part.height == height && part.width == width && std::floor(part.left) == part.left &&
      std::floor(part.top) == part.top)
    return copy_part(image, static_cast<std::size_t>(part.left), static_cast<std::size_t>(part.top), height, width,
                     pixels);
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t source_row = static_cast<std::size_t>(image.width) * channels;
  const std::size_t row = static_cast<std::size_t>(width) * channels;
  thread_local Workspace workspace;
  auto& [kept_across, kept_down, source, narrow] = workspace;
  const Taps& across = taps_of({part.left, part.width, image.width, width}, kept_across);
  const Taps& down = taps_of({part.top, part.height, image.height, height}, kept_down);
  const std::size_t columns = across.size() * channels;
  source.resize(columns + 1);
  narrow.resize(down.size() * row);
  for (std::size_t y = 0; y < down.size(); ++y) {
    const std::uint8_t* const from = &image.pixels[(down.begin() + y) * source_row + across.begin() * channels];
    for (std::size_t i = 0; i < columns; ++i) source[i] = static_cast<float>(from[i]);
    if (channels == 3)
      shrink_row_of_colours(across, source, &narrow[y * row]);
    else
      shrink_row_of_grays(across, source, &narrow[y * row]);
  }
  constexpr float scale = 1.0F / 127.5F;
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    float* const target = &pixels[y * row];
    std::fill_n(target, row, -1.0F);
    for (std::size_t k = 0; k < down.count; ++k) {
      const float weight = scale * down.weights[y * down.count + k];
      const float* const from = &narrow[(down.first[y] - down.begin() + k) * row];
      for (std::size_t i = 0; i < row; ++i) target[i] += weight * from[i];
    }
  }
}

void resize_to_floats(const Image& image, int height, int width, std::span<float> pixels) {
  resize_to_floats(
      image,
      {.left = 0, .top = 0, .width = static_cast<double>(image.width), .height = static_cast<double>(image.height)},
      height, width, pixels);
}

Image fit_into_square(const Image& image, int side) {
  const Image coloured = with_channels(image, 3);
  const double scale = static_cast<double>(side) / std::max(image.height, image.width);
  const auto fitted = [scale](int pixels) { return std::max(1, static_cast<int>(std::lround(scale * pixels))); };
  Image result{.height = fitted(image.height), .width = fitted(image.width), .channels = 3, .pixels = {}};
  std::vector<float> pixels(3 * static_cast<std::size_t>(result.height) * static_cast<std::size_t>(result.width));
  resize_to_floats(coloured, result.height, result.width, pixels);
  for (const float pixel : pixels)
    result.pixels.push_back(static_cast<std::uint8_t>(std::lround(255 * std::clamp((pixel + 1) / 2, 0.0F, 1.0F))));
  return result;
}

}  // namespace heddle
