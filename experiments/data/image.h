// Images from untrusted files: PGM, PPM (text and binary), PNG and JPEG become 8-bit pixels, or an
// InputError that names the file and what is wrong with it. The first bytes, not the name, decide the format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// 8-bit pixels in rows of interleaved channels: pixels[(y * width + x) * channels + c].
struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<std::uint8_t> pixels;
};

/// The size that a header announces, before the picture is turned upright.
struct ImageHeader {
  int height = 0;
  int width = 0;
  int channels = 0;
  bool is_jpeg = false;
};

/// Larger images are refused by their header, before memory is allocated.
inline constexpr std::int64_t maximum_image_pixels = 64'000'000;

/// Decodes an image held in memory to its own 1 or 3 channels, upright as its EXIF says. Alpha is dropped, samples of
/// 16 bits are cut to 8, and CMYK becomes RGB. `name` stands in error messages. A `reduction` of 2, 4 or 8 divides the
/// sides of a JPEG, rounded up, which is faster than to decode it whole and to shrink it; other formats do not know it.
Image decode_image(std::span<const std::uint8_t> bytes, std::string_view name, int reduction = 1);

/// Reads the header only. `file_bytes` is the whole file's size where `bytes` is its beginning, so that a shortened
/// binary PGM or PPM is found too.
ImageHeader decode_image_header(std::span<const std::uint8_t> bytes, std::size_t file_bytes, std::string_view name);

/// The bytes of a regular file. InputError, which names the file, if it cannot be read or has more than 1 GiB.
std::vector<std::uint8_t> read_image_file(const std::string& path);

/// decode_image of a regular file.
Image load_image(const std::string& path);

/// decode_image_header of a regular file; reads a few kilobytes where they suffice.
ImageHeader load_image_header(const std::string& path);

}  // namespace heddle
