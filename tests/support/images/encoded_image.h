// Files of images for the tests of their decoders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/data/image.h"

namespace heddle::test {

using Bytes = std::vector<std::uint8_t>;

inline Bytes bytes_of(std::string_view text) {
  return {text.begin(), text.end()};
}
inline std::string text_of(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

/// Levels that rise along both axes and differ between channels.
Image gradient(int height, int width, int channels);

Bytes png_by_stb(const Image& image);
/// A JPEG of quality 95 without subsampling. Four channels are CMYK.
Bytes fine_jpeg(const Image& image);

/// A PNG from its raw rows, each with the number of its filter in front: what libraries do not write.
struct RawPng {
  std::uint32_t width = 1;
  std::uint32_t height = 1;
  std::uint8_t depth = 8;
  std::uint8_t colour = 0;
  Bytes rows{};
  Bytes exif{};  ///< without such a chunk if empty
};
Bytes encode_png(const RawPng& png);
/// Computes the checksum of the chunk that begins at this byte anew, if the chunk ends within the file.
void repair_checksum(Bytes& png, std::size_t chunk);
/// The same for all chunks up to the first that does not end within the file.
void repair_checksums(Bytes& png);

/// A block of EXIF that has nothing but an orientation.
Bytes exif_block(std::uint8_t orientation, bool is_little_endian = true);
/// A JPEG with a segment behind its first marker.
Bytes with_segment(const Bytes& jpeg, std::uint8_t marker, const Bytes& segment);

}  // namespace heddle::test
