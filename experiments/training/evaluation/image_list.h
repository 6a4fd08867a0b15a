// Images in an order, wherever they come from, as embeddings are computed of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "experiments/data/dataset.h"

namespace heddle {

/// `read` writes an image as the model takes it, and may be called by several threads at once; InputError names the
/// image if it is broken.
struct ImageList {
  std::int64_t size = 0;
  std::function<void(std::int64_t image, std::span<float> pixels)> read{};
};

/// A split of a data set, which must outlive the list.
ImageList images_of(const Dataset& dataset, Split split);

/// Files, resized as those of an image folder. InputError if one of them is no image: the headers are read now.
ImageList images_of_files(std::vector<std::string> files, const ImageShape& shape);

}  // namespace heddle
