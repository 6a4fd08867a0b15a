// Converts images to the channels and the size that a network takes.
#pragma once

#include <span>

#include "experiments/data/image.h"

namespace heddle {

/// Converts gray to RGB by repetition, and RGB to gray by luma (0.299, 0.587, 0.114); `channels` is 1 or 3.
Image with_channels(Image image, int channels);

/// A part of an image, in pixels of that image. It may begin and end within a pixel.
struct Window {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

/// Resizes a part of an image to height x width and maps its pixels x to (x / 255 - 0.5) / 0.5, in rows of interleaved
/// channels. Interpolation is bilinear; on an axis that shrinks, the filter is a triangle that is wider by the same
/// factor, which prevents aliasing. Pixels outside the part have no effect, but a pixel that its border cuts counts in
/// full.
void resize_to_floats(const Image& image, const Window& part, int height, int width, std::span<float> pixels);

/// Resizes the whole image.
void resize_to_floats(const Image& image, int height, int width, std::span<float> pixels);

/// Resizes an image to the largest one of its proportions that fits into a square, in RGB.
Image fit_into_square(const Image& image, int side);

}  // namespace heddle
