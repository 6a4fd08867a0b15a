// Decodes images from untrusted files, which are PGM, PPM (text and binary), PNG or JPEG, to 8-bit pixels. A file that
// cannot be decoded is an InputError that names it and the reason. The first bytes, not the name, determine the format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/description/enum_table.h"

namespace heddle {

/// 8-bit pixels in rows of interleaved channels: pixels[(y * width + x) * channels + c].
struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<std::uint8_t> pixels;
};

enum class ImageFormat { pnm, png, jpeg };

template <>
inline constexpr auto enum_names<ImageFormat> = enum_table<ImageFormat>({
    {ImageFormat::pnm, "PGM or PPM"},
    {ImageFormat::png, "PNG"},
    {ImageFormat::jpeg, "JPEG"},
});

/// The size that a header announces, before the image is turned upright.
struct ImageHeader {
  int height = 0;
  int width = 0;
  int channels = 0;
  ImageFormat format = ImageFormat::pnm;
};

/// The largest image that is accepted. The header is checked before memory is allocated.
inline constexpr std::int64_t max_image_pixels = 64'000'000;

/// Decodes an image in memory to its own 1 or 3 channels and turns it upright as its EXIF says. Alpha is dropped,
/// 16-bit samples are cut to 8 bits, and CMYK becomes RGB. `name` is used in error messages. A `reduction` of 2, 4 or 8
/// divides the sides of a JPEG, rounded up, which is faster than decoding the whole image and shrinking it; other
/// formats ignore it. With a `centre`, only the square of this side in the middle of the image is needed: the other
/// pixels of a JPEG may be 0, and damage below the square may not be found.
Image decode_image(std::span<const std::uint8_t> bytes, std::string_view name, int reduction = 1, int centre = 0);

/// The format that the first bytes show. InputError with the name of the image if they show none.
ImageFormat image_format(std::span<const std::uint8_t> bytes, std::string_view name);

/// Reads only the header. `bytes` may be the beginning of a file of `file_bytes` bytes; a truncated binary PGM or PPM
/// is found by its size.
ImageHeader decode_image_header(std::span<const std::uint8_t> bytes, std::size_t file_bytes, std::string_view name);

/// Reads a regular file. InputError with its name if it cannot be read or has more than 1 GiB.
std::vector<std::uint8_t> read_image_file(const std::string& path);

/// Calls decode_image on a regular file.
Image load_image(const std::string& path);

/// Calls decode_image_header on a regular file; reads only a few kilobytes if they suffice.
ImageHeader load_image_header(const std::string& path);

}  // namespace heddle
