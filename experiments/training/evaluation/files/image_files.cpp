#include "experiments/training/evaluation/files/image_files.h"

#include <array>

#include "framework/description/printable.h"
#include "framework/error.h"

namespace heddle {

namespace {

/// The file of an image; empty if there is none.
std::string file_of(const std::string& path, bool lacks_ending) {
  static constexpr std::array<const char*, 3> endings{".jpg", ".jpeg", ".png"};
  std::error_code ignored;  // an error means that there is no such file
  if (!lacks_ending) return std::filesystem::is_regular_file(path, ignored) ? path : "";
  for (const char* const ending : endings)
    if (std::filesystem::is_regular_file(path + ending, ignored)) return path + ending;
  return "";
}

}  // namespace

ImageFiles::ImageFiles(std::filesystem::path folder, bool lacks_endings)
    : folder_(std::move(folder)), lacks_endings_(lacks_endings) {
  std::error_code ignored;  // an error means that there is no such folder
  if (!std::filesystem::is_directory(folder_, ignored))
    fail<InputError>("{}: there is no such folder", folder_.string());
}

std::optional<std::int64_t> ImageFiles::number_of(std::string_view name) {
  const auto [place, is_new] = numbers_.try_emplace(std::string(name), static_cast<std::int64_t>(files_.size()));
  if (!is_new) return place->second;
  std::string path = file_of((folder_ / name).string(), lacks_endings_);
  if (path.empty()) {
    numbers_.erase(place);
    return {};
  }
  files_.push_back(std::move(path));
  return place->second;
}

std::string ImageFiles::path_of(std::string_view name) const {
  return printable((folder_ / name).string()) + (lacks_endings_ ? ".jpg, .jpeg or .png" : "");
}

}  // namespace heddle
