// The orientation that a camera writes into EXIF: how the stored image must be turned to stand upright.
#pragma once

#include <cstdint>
#include <span>

#include "experiments/data/image.h"

namespace heddle {

/// The orientation (1 to 8, tag 0x0112) in a block of EXIF, which begins with a TIFF header. If the block has none or
/// is damaged, the result is 1 (upright), because the image itself may be intact.
int exif_orientation(std::span<const std::uint8_t> tiff);

/// Turns and mirrors the image as the orientation says.
Image upright(Image image, int orientation);

}  // namespace heddle
