// The people in a folder of photographs, and their files.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/data/files/image_folder.h"

namespace heddle {

struct FolderPerson {
  std::string name;
  std::vector<std::string> files;  ///< in natural order, relative to the folder
};

/// Lists the people whose names `wanted` accepts, in natural order. A folder without images is a person without files.
/// What is skipped is reported in `notes`.
std::vector<FolderPerson> list_people(const ImageFolderConfig& config,
                                      const std::function<bool(std::string_view)>& wanted,
                                      std::vector<std::string>& notes);

/// Whether a file or folder is left out: hidden ones, and what macOS adds to zip archives.
bool is_skipped_name(std::string_view name);
/// Whether the ending of a file's name is that of an image that can be read.
bool is_image_name(const std::string& name);

/// The name of a person in messages: `image folder "faces/s1"`.
std::string title_of(const ImageFolderConfig& config, const FolderPerson& person);

}  // namespace heddle
