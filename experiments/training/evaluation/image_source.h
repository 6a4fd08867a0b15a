// Numbered images to embed, from a data set, from files or from a .bin.
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

/// `read` writes an image as the network takes it, and may be called from several threads concurrently. InputError
/// names the image if it is broken.
struct ImageSource {
  std::int64_t size = 0;
  std::function<void(std::int64_t image, std::span<float> pixels)> read{};
};

/// A split of a data set, which must outlive the result.
ImageSource images_of(const Dataset& dataset, Split split);

/// Images in files or in a .bin, with the preprocessing of the training. All headers are read here: InputError names an
/// image that is broken, or smaller than what preprocessing cuts out.
ImageSource images_of_files(std::vector<std::string> files, const Preprocessing& preprocessing);
ImageSource images_of_bin(std::shared_ptr<const BinFile> file, const Preprocessing& preprocessing);

}  // namespace heddle
