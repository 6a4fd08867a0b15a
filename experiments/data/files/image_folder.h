// Photographs in folders: one folder for each identity, or one for all with identities in the files' names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/data/encoded_images.h"

namespace heddle {

class Describer;

/// What decides which images are for training and which for testing.
enum class FolderSplit { number, share, people };

template <>
inline constexpr auto enum_names<FolderSplit> = enum_table<FolderSplit>({
    {FolderSplit::number, "number"},
    {FolderSplit::share, "share"},
    {FolderSplit::people, "people"},
});

struct ImageFolderConfig {
  std::string path;
  std::vector<std::int64_t> image = {3, 112, 112};
  std::string pattern;
  FolderSplit split = FolderSplit::number;
  std::int64_t train_per_identity = 0;
  std::int64_t test_per_identity = 0;
  double train_share = 0;
  std::string people;
  std::string test_people;
  std::int64_t min_images = 0;
  OnBroken on_broken = OnBroken::stop;

  /// The number of identities, as far as it is known before the images are opened.
  static std::optional<std::int64_t> known_classes() { return {}; }
};
void describe(Describer& d, ImageFolderConfig& config);
/// InputError if keys do not agree with each other.
void check(const ImageFolderConfig& config);
/// Labels are the identities in natural order. Hidden entries, files beside the folders, and files whose names do not
/// end in .pgm, .ppm, .pnm, .png, .jpg or .jpeg are passed over; links are followed. InputError if the folder cannot be
/// used. The seed has no effect.
std::unique_ptr<const Dataset> open_data(const ImageFolderConfig& config, const Preprocessing& preprocessing,
                                         RandomKey seed);

}  // namespace heddle
