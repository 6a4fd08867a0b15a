// The names of a head's classes, which a checkpoint keeps in a text file beside the tensors, one line for each class.
// Classes past the last name have none.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/training/experiment.h"
#include "framework/files/safetensors.h"

namespace heddle {

/// The names of the classes of each data set. A checkpoint keeps those of the sets that have names, and their checksums
/// in its metadata.
class ClassNames {
 public:
  ClassNames(const Experiment& experiment, const Dataset& dataset);

  void add_checksums(SafetensorsMetadata& metadata) const;
  void write(const std::filesystem::path& folder) const;
  /// The names of a set; none if it has none.
  const std::vector<std::string>& of_set(std::size_t set) const { return names_[set]; }

  /// The file of a set in a checkpoint's folder: `classes.txt`, or of several sets `classes-NAME.txt`.
  static std::string file_of(const Experiment& experiment, std::size_t set);
  /// The file of names that a checkpoint keeps for a data set; empty if it has none. InputError if the file is missing
  /// or damaged.
  static std::string read_text(const std::filesystem::path& folder, const SafetensorsMetadata& metadata,
                               const Experiment& experiment, std::size_t set);
  /// The names in such a file.
  static std::vector<std::string> of_text(const std::string& text);
  /// The names in the file that `read_text` reads.
  static std::vector<std::string> read(const std::filesystem::path& folder, const SafetensorsMetadata& metadata,
                                       const Experiment& experiment, std::size_t set);

 private:
  std::vector<std::string> files_;  // of each set
  std::vector<std::vector<std::string>> names_;
  std::vector<std::string> texts_;
};

}  // namespace heddle
