// Functions that read the header and decode the image of each file format, and encoders for PNG and JPEG. A broken file
// is an InputError.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "experiments/data/image.h"

namespace heddle {

/// InputError if an image has no pixels or more than max_image_pixels.
void check_image_size(std::int64_t height, std::int64_t width, std::string_view name);

ImageHeader pnm_header(std::span<const std::uint8_t> bytes, std::size_t file_bytes, std::string_view name);
Image decode_pnm(std::span<const std::uint8_t> bytes, std::string_view name);

ImageHeader png_header(std::span<const std::uint8_t> bytes, std::string_view name);
Image decode_png(std::span<const std::uint8_t> bytes, std::string_view name);

ImageHeader jpeg_header(std::span<const std::uint8_t> bytes, std::string_view name);
/// Sides are divided by `reduction`, which is 1, 2, 4 or 8, and rounded up. `centre` as in decode_image.
Image decode_jpeg(std::span<const std::uint8_t> bytes, std::string_view name, int reduction, int centre = 0);

/// Rows or columns of an image.
struct PixelRange {
  int begin = 0;
  int size = 0;
};
/// Decodes some rows and columns into their places in `image`, which has the picture's size and 1 or 3 channels.
/// Returns false for a picture in several scans (a progressive one), which is to be decoded whole.
bool decode_jpeg_part(std::span<const std::uint8_t> bytes, std::string_view name, const PixelRange& rows,
                      const PixelRange& columns, Image& image);
/// Encodes 1 or 3 channels as PNG.
std::vector<std::uint8_t> encode_png(const Image& image);
/// Encodes with a quality of 1 to 100 and with colours at half the resolution, as cameras and web sites do.
std::vector<std::uint8_t> encode_jpeg(const Image& image, int quality);

}  // namespace heddle
