// Images in an order, wherever they come from, as embeddings are computed of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/data/dataset.h"
#include "experiments/training/evaluation/files/bin_file.h"

namespace heddle {

/// `read` writes an image as the network takes it, and may be called by several threads at once; InputError names the
/// image if it is broken.
struct ImageList {
  std::int64_t size = 0;
  std::function<void(std::int64_t image, std::span<float> pixels)> read{};
};

/// A split of a data set, which must outlive the list.
ImageList images_of(const Dataset& dataset, Split split);

/// Images in files or in memory, with the preprocessing of the training. Their headers are read at once, and InputError
/// names the first that is no image, or smaller than what preprocessing cuts out.
ImageList images_of_files(std::vector<std::string> files, const Preprocessing& preprocessing);
ImageList images_of_bin(std::shared_ptr<const BinFile> file, const Preprocessing& preprocessing);

}  // namespace heddle
