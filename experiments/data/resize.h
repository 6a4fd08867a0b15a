// Images in the channels and the size that a network takes.
#pragma once

#include <span>

#include "experiments/data/image.h"

namespace heddle {

/// Gray to RGB by repetition, RGB to gray by luma (0.299, 0.587, 0.114); `channels` is 1 or 3.
Image with_channels(Image image, int channels);

/// A part of an image, in its pixels. It may begin and end within a pixel.
struct Window {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

/// Stretches the part to height x width and scales pixels to (x / 255 - 0.5) / 0.5, rows of interleaved channels.
/// Bilinear; a shrinking axis is averaged over as wide a triangle as it shrinks, so that nothing aliases. Pixels
/// outside the part have no effect, except that of a pixel that it cuts.
void resize_to_floats(const Image& image, const Window& part, int height, int width, std::span<float> pixels);

/// The whole image.
void resize_to_floats(const Image& image, int height, int width, std::span<float> pixels);

}  // namespace heddle
