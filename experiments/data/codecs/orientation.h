// The orientation that a camera writes into EXIF: how the stored picture must be turned to stand upright.
#pragma once

#include <cstdint>
#include <span>

#include "experiments/data/image.h"

namespace heddle {

/// The orientation (1 to 8, tag 0x0112) in a block of EXIF, which begins with a TIFF header. 1, which is upright, where
/// the block has none or is damaged: it describes the picture and is no part of it.
int exif_orientation(std::span<const std::uint8_t> tiff);

/// Turns and mirrors the picture as the orientation says.
Image upright(Image image, int orientation);

}  // namespace heddle
