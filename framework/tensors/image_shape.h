// The size of the images that a model takes and a data set gives.
#pragma once

#include <cstdint>

#include "framework/tensors/shape.h"

namespace heddle {

struct ImageShape {
  std::int64_t channels = 3;
  std::int64_t height = 112;
  std::int64_t width = 112;

  std::int64_t size() const { return channels * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// The shape of one image as the models take it.
inline Shape shape_of(const ImageShape& image) {
  return {image.height, image.width, image.channels};
}

}  // namespace heddle
