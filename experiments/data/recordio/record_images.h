// The data set of InsightFace and MXNet: a `.rec` of encoded images with labels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/data/encoded_images.h"

namespace heddle {

class Describer;

struct RecordImagesConfig {
  std::string train;
  std::string test;
  std::string class_weights{};
  std::vector<std::int64_t> image = {3, 112, 112};
  OnBroken on_broken = OnBroken::stop;

  /// The number of people, if it is known before the records are opened.
  static std::optional<std::int64_t> known_classes() { return {}; }
  /// The keys that hold paths of files or folders; a path may be empty.
  std::vector<std::string*> paths() { return {&train, &test, &class_weights}; }
};
void describe(Describer& d, RecordImagesConfig& config);
/// Labels are those of the records in both files; a person's label does not depend on who else has images. InputError
/// if a file cannot be used. The seed has no effect.
std::unique_ptr<const Dataset> open_data(const RecordImagesConfig& config, const Preprocessing& preprocessing,
                                         RandomKey seed);

}  // namespace heddle
