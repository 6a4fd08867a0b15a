// Images that a text file lists with their labels: `path label`, PLSC's `path<tab>label`, or columns of a CSV file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/data/encoded_images.h"
#include "experiments/data/files/file_set.h"

namespace heddle {

class Describer;

struct ImageListConfig {
  std::string train;
  std::string test;
  std::string root;
  std::vector<std::int64_t> image = {3, 112, 112};
  std::string path_column;
  std::string label_column;
  std::string weight_column;
  std::string class_weights;
  std::int64_t min_images = 0;
  OnBroken on_broken = OnBroken::stop;

  /// The number of people, if it is known before the images are opened.
  static std::optional<std::int64_t> known_classes() { return {}; }
  /// The keys that hold paths of files or folders; a path may be empty.
  std::vector<std::string*> paths() { return {&train, &test, &root, &class_weights}; }
};
void describe(Describer& d, ImageListConfig& config);
/// InputError if keys do not agree with each other.
void check(const ImageListConfig& config);
/// Lists the files without opening them. InputError as with open_data(), which needs a second person.
FileSet list_files(const ImageListConfig& config);
/// Labels may be numbers or names. Those of the training list become 0 .. classes-1 in natural order, which leaves
/// numbers that begin at 0 without a gap as they are; those of the test list alone follow. InputError if a list cannot
/// be used. The seed has no effect.
std::unique_ptr<const Dataset> open_data(const ImageListConfig& config, const Preprocessing& preprocessing,
                                         RandomKey seed);

}  // namespace heddle
