// Photographs in folders: one folder for each person, or one folder for all, whose file names hold the people.
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

/// The rule that divides images between training and testing.
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
  std::string class_weights;
  std::int64_t min_images = 0;
  OnBroken on_broken = OnBroken::stop;

  /// The number of people, if it is known before the images are opened.
  static std::optional<std::int64_t> known_classes() { return {}; }
  /// The keys that hold paths of files or folders; a path may be empty.
  std::vector<std::string*> paths() { return {&path, &people, &test_people, &class_weights}; }
};
void describe(Describer& d, ImageFolderConfig& config);
/// InputError if keys do not agree with each other.
void check(const ImageFolderConfig& config);
/// Lists the files of the folder without opening them. InputError as with open_data(), which needs a second person.
FileSet list_files(const ImageFolderConfig& config);
/// Labels number the people in natural order. Hidden entries, files beside the folders, and files whose names do
/// not end in .pgm, .ppm, .pnm, .png, .jpg or .jpeg are skipped; links are followed. InputError if the folder cannot be
/// used. The seed has no effect.
std::unique_ptr<const Dataset> open_data(const ImageFolderConfig& config, const Preprocessing& preprocessing,
                                         RandomKey seed);

}  // namespace heddle
