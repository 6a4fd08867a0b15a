// The images of a folder that lists name, each once.
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
  /// `lacks_endings`: names lack the ending of their files, which is .jpg, .jpeg or .png. InputError if there is no
  /// such folder.
  explicit ImageFiles(std::filesystem::path folder, bool lacks_endings = false);

  /// The number of an image, which counts from 0 in the order in which they are first asked for; nothing if there is no
  /// such file.
  std::optional<std::int64_t> number_of(std::string_view name);
  /// As it is shown in messages.
  std::string path_of(std::string_view name) const;
  /// The files of all numbers.
  std::vector<std::string> take() { return std::move(files_); }

 private:
  std::filesystem::path folder_;
  bool lacks_endings_;
  std::vector<std::string> files_;
  std::unordered_map<std::string, std::int64_t> numbers_;
};

}  // namespace heddle
