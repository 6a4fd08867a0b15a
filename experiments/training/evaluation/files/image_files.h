// The images of a folder that are named in lists, each once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace heddle {

class ImageFiles {
 public:
  /// `lacks_endings`: the names have no ending, and those of the files end in .jpg, .jpeg or .png. InputError if there
  /// is no such folder.
  explicit ImageFiles(std::filesystem::path folder, bool lacks_endings = false);

  /// The number of an image, from 0 in the order in which names are first given; empty if there is no such file.
  std::optional<std::int64_t> number_of(std::string_view name);
  /// The path of an image in messages.
  std::string path_of(std::string_view name) const;
  /// Returns the paths of all images in the order of their numbers.
  std::vector<std::string> take() { return std::move(files_); }

 private:
  std::filesystem::path folder_;
  bool lacks_endings_;
  std::vector<std::string> files_;
  std::unordered_map<std::string, std::int64_t> numbers_;
};

}  // namespace heddle
