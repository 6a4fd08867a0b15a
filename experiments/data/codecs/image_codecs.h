// Two functions for each file format, for image.cpp alone: one reads the header, one the pixels. All raise InputError.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "experiments/data/image.h"

namespace heddle {

/// Refuses an image without pixels and one beyond maximum_image_pixels.
void check_image_size(std::int64_t height, std::int64_t width, std::string_view name);

ImageHeader pnm_header(std::span<const std::uint8_t> bytes, std::size_t file_bytes, std::string_view name);
Image decode_pnm(std::span<const std::uint8_t> bytes, std::string_view name);

ImageHeader png_header(std::span<const std::uint8_t> bytes, std::string_view name);
Image decode_png(std::span<const std::uint8_t> bytes, std::string_view name);

ImageHeader jpeg_header(std::span<const std::uint8_t> bytes, std::string_view name);
/// Sides are divided by `reduction`, which is 1, 2, 4 or 8, and rounded up.
Image decode_jpeg(std::span<const std::uint8_t> bytes, std::string_view name, int reduction);
/// Quality 1 to 100, with colours of half the resolution, as cameras and web sites store them.
std::vector<std::uint8_t> encode_jpeg(const Image& image, int quality);

}  // namespace heddle
