#include "experiments/data/codecs/orientation.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace heddle {
namespace {

/// Reads numbers of a TIFF file in its own byte order; beyond its end they are 0.
class Tiff {
 public:
  explicit Tiff(std::span<const std::uint8_t> bytes)
      : bytes_(bytes), is_little_(bytes.size() >= 2 && bytes[0] == 'I' && bytes[1] == 'I') {}

  bool has(std::uint64_t at, std::uint64_t size) const { return at <= bytes_.size() && size <= bytes_.size() - at; }
  std::uint32_t u16(std::uint64_t at) const { return number(at, 2); }
  std::uint32_t u32(std::uint64_t at) const { return number(at, 4); }

 private:
  std::uint32_t number(std::uint64_t at, unsigned size) const {
    if (!has(at, size)) return 0;
    std::uint32_t value = 0;
    for (unsigned i = 0; i < size; ++i) value |= std::uint32_t{bytes_[at + i]} << (8 * (is_little_ ? i : size - 1 - i));
    return value;
  }

  std::span<const std::uint8_t> bytes_;
  bool is_little_;
};

}  // namespace

int exif_orientation(std::span<const std::uint8_t> tiff) {
  constexpr std::uint32_t tag = 0x0112;
  constexpr std::uint64_t entry_bytes = 12;
  const Tiff reader(tiff);
  if (reader.u16(2) != 42) return 1;
  const std::uint64_t directory = reader.u32(4);
  const std::uint32_t entries = reader.u16(directory);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::uint64_t entry = directory + 2 + i * entry_bytes;
    if (!reader.has(entry, entry_bytes)) return 1;
    if (reader.u16(entry) != tag) continue;
    const std::uint32_t orientation = reader.u16(entry + 8);
    return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 1;
  }
  return 1;
}

Image upright(Image image, int orientation) {
  if (orientation == 1) return image;
  // Orientations from 5 on exchange rows and columns. Each axis of the stored image may also be mirrored.
  const bool is_transposed = orientation >= 5;
  const bool is_mirrored = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool is_flipped = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image turned{.height = is_transposed ? image.width : image.height,
               .width = is_transposed ? image.height : image.width,
               .channels = image.channels,
               .pixels = {}};
  turned.pixels.resize(image.pixels.size());
  const auto channels = static_cast<std::ptrdiff_t>(image.channels);
  auto target = turned.pixels.begin();
  for (int y = 0; y < turned.height; ++y)
    for (int x = 0; x < turned.width; ++x, target += channels) {
      const int row = is_transposed ? x : y;
      const int column = is_transposed ? y : x;
      const std::ptrdiff_t from_row = is_flipped ? image.height - 1 - row : row;
      const std::ptrdiff_t from_column = is_mirrored ? image.width - 1 - column : column;
      std::copy_n(image.pixels.begin() + (from_row * image.width + from_column) * channels, channels, target);
    }
  return turned;
}

}  // namespace heddle
