#include "experiments/data/files/folder_people.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <unordered_map>

#include "experiments/data/files/file_set.h"
#include "experiments/data/files/name_pattern.h"
#include "experiments/data/files/natural_order.h"
#include "experiments/data/parallel_for.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

/// Names in `folder` that are not hidden and pass `is_wanted`, in natural order.
template <class IsWanted>
std::vector<std::string> list(const std::string& folder, const IsWanted& is_wanted) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (!is_skipped_name(name) && is_wanted(*entry, name)) names.push_back(std::move(name));
  }
  if (error) fail<InputError>("image folder \"{}\": {}", folder, error.message());
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

bool ends_in(const std::string& name, std::initializer_list<std::string_view> endings) {
  std::string ending = fs::path(name).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

/// Whether the ending of a file's name is that of an image that cannot be read.
bool is_unread_image_name(const std::string& name) {
  return ends_in(name, {".webp", ".bmp", ".gif", ".tif", ".tiff", ".heic", ".avif", ".jp2"});
}

bool is_image(const fs::directory_entry& /*entry*/, const std::string& name) {
  return is_image_name(name);
}

std::vector<FolderPerson> people_of_folders(const std::string& path,
                                            const std::function<bool(std::string_view)>& wanted,
                                            std::vector<std::string>& notes) {
  std::int64_t loose = 0;
  const auto is_person = [&](const fs::directory_entry& entry, const std::string& name) {
    std::error_code ignored;
    const bool is_folder = entry.is_directory(ignored);
    if (!is_folder && is_image_name(name)) ++loose;
    return is_folder && wanted(name);
  };
  std::vector<FolderPerson> people;
  for (std::string& name : list(path, is_person)) people.push_back({std::move(name), {}});
  if (loose > 0)
    notes.push_back(fmt::format("image folder \"{}\": {} in no person's folder and {} left out", path,
                                counted(loose, "image is", "images are"), loose == 1 ? "is" : "are"));
  std::atomic<std::int64_t> folders = 0;
  std::atomic<std::int64_t> others = 0;
  parallel_for(static_cast<std::int64_t>(people.size()), [&](std::int64_t i) {
    FolderPerson& person = people[static_cast<std::size_t>(i)];
    person.files =
        list((fs::path(path) / person.name).string(), [&](const fs::directory_entry& entry, const auto& name) {
          std::error_code ignored;
          if (entry.is_directory(ignored)) {
            ++folders;
            return false;
          }
          if (is_unread_image_name(name)) ++others;
          return is_image_name(name);
        });
    for (std::string& file : person.files) file.insert(0, person.name + "/");
  });
  if (folders > 0)
    notes.push_back(fmt::format("image folder \"{}\": {} within people's folders {} left out", path,
                                counted(folders, "folder", "folders"), folders == 1 ? "is" : "are"));
  if (others > 0)
    notes.push_back(fmt::format("image folder \"{}\": {} of a format other than PGM, PPM, PNG and JPEG {} left out",
                                path, counted(others, "image", "images"), others == 1 ? "is" : "are"));
  return people;
}

std::vector<FolderPerson> people_of_names(const ImageFolderConfig& config,
                                          const std::function<bool(std::string_view)>& wanted,
                                          std::vector<std::string>& notes) {
  const NamePattern pattern(config.pattern);
  std::vector<FolderPerson> people;
  std::unordered_map<std::string, std::size_t> by_name;
  std::int64_t others = 0;
  for (std::string& file : list(config.path, is_image)) {
    const auto identity = pattern.identity(file);
    if (!identity) ++others;
    if (!identity || !wanted(*identity)) continue;
    const auto [place, is_new] = by_name.emplace(*identity, people.size());
    if (is_new) people.push_back({place->first, {}});
    people[place->second].files.push_back(std::move(file));
  }
  if (others > 0)
    notes.push_back(fmt::format("image folder \"{}\": {} not fit \"{}\" and {} left out", config.path,
                                counted(others, "name does", "names do"), config.pattern, others == 1 ? "is" : "are"));
  std::sort(people.begin(), people.end(),
            [](const FolderPerson& a, const FolderPerson& b) { return natural_less(a.name, b.name); });
  return people;
}

}  // namespace

bool is_skipped_name(std::string_view name) {
  return name.starts_with('.') || name == "__MACOSX";
}

bool is_image_name(const std::string& name) {
  return ends_in(name, {".pgm", ".ppm", ".pnm", ".png", ".jpg", ".jpeg"});
}

std::vector<FolderPerson> list_people(const ImageFolderConfig& config,
                                      const std::function<bool(std::string_view)>& wanted,
                                      std::vector<std::string>& notes) {
  std::error_code error;
  if (!fs::exists(config.path, error))
    fail<InputError>("data.path: expected a folder, \"{}\" does not exist", config.path);
  if (!fs::is_directory(config.path, error))
    fail<InputError>("data.path: expected a folder, \"{}\" is a file", config.path);
  return config.pattern.empty() ? people_of_folders(config.path, wanted, notes)
                                : people_of_names(config, wanted, notes);
}

std::string title_of(const ImageFolderConfig& config, const FolderPerson& person) {
  if (!config.pattern.empty()) return fmt::format("image folder \"{}\", person \"{}\"", config.path, person.name);
  return fmt::format("image folder \"{}\"", (fs::path(config.path) / person.name).string());
}

}  // namespace heddle
