#include <algorithm>
#include <utility>

#include "experiments/data/parallel_for.h"
#include "experiments/data/resize.h"
#include "experiments/program/data/overview.h"
#include "framework/error.h"
#include "framework/scalars/permutation.h"

namespace heddle {

namespace {

constexpr std::int64_t tiles_in_row = 8;
constexpr std::int64_t most_tiles = 64;
constexpr int side = 96;
constexpr std::uint8_t background = 255;
constexpr std::uint8_t grey = 128;

/// The positions of the images on the sheet.
std::vector<std::int64_t> drawn_images(std::int64_t size) {
  const Permutation shuffled(size, {0}, Purpose::shuffle);
  std::vector<std::int64_t> drawn;
  for (std::int64_t i = 0; i < std::min(size, most_tiles); ++i) drawn.push_back(shuffled[i]);
  std::sort(drawn.begin(), drawn.end());
  return drawn;
}

/// The image, resized to fit into a square without changing its proportions; a grey square if it is broken.
Image tile_of(const StoredImages& images, std::int64_t i) {
  try {
    std::vector<std::uint8_t> buffer;
    return fit_into_square(decode_image(images.encoded(i, buffer), images.name(i)), side);
  } catch (const InputError&) {
    return {.height = side, .width = side, .channels = 3, .pixels = std::vector<std::uint8_t>(3 * side * side, grey)};
  }
}

/// Copies a tile into the middle of the square whose corner is at `top` and `left`.
void paste(const Image& tile, int top, int left, Image& sheet) {
  top += (side - tile.height) / 2;
  left += (side - tile.width) / 2;
  const auto row_bytes = 3 * static_cast<std::ptrdiff_t>(tile.width);
  for (int y = 0; y < tile.height; ++y)
    std::copy_n(tile.pixels.begin() + y * row_bytes, row_bytes,
                sheet.pixels.begin() + 3 * (static_cast<std::ptrdiff_t>(top + y) * sheet.width + left));
}

}  // namespace

Image contact_sheet(const StoredImages& images) {
  const std::vector<std::int64_t> drawn = drawn_images(images.size());
  const auto tiles = static_cast<std::int64_t>(drawn.size());
  const auto rows = static_cast<int>((tiles + tiles_in_row - 1) / tiles_in_row);
  Image sheet{.height = rows * side,
              .width = static_cast<int>(std::min(tiles, tiles_in_row)) * side,
              .channels = 3,
              .pixels = {}};
  sheet.pixels.assign(3 * static_cast<std::size_t>(sheet.height) * static_cast<std::size_t>(sheet.width), background);
  parallel_for(tiles, [&](std::int64_t i) {
    paste(tile_of(images, drawn[static_cast<std::size_t>(i)]), static_cast<int>(i / tiles_in_row) * side,
          static_cast<int>(i % tiles_in_row) * side, sheet);
  });
  return sheet;
}

}  // namespace heddle
