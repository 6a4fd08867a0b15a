#include "experiments/training/checkpoints/find_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "framework/error.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& path) {
  std::vector<fs::path> entries;
  std::error_code ignored;  // no folder: nothing in it
  for (const auto& entry : fs::directory_iterator(path, ignored)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace

std::optional<std::int64_t> steps_in_name(const std::string& folder) {
  constexpr std::string_view prefix = "step-";
  std::int64_t steps = 0;
  const char* const end = folder.data() + folder.size();
  if (!folder.starts_with(prefix)) return {};
  const auto result = std::from_chars(folder.data() + prefix.size(), end, steps);
  if (result.ec != std::errc{} || result.ptr != end) return {};  // also what is still being written
  return steps;
}

std::optional<std::int64_t> latest_in(const fs::path& path) {
  std::optional<std::int64_t> newest;
  for (const fs::path& entry : entries_of(path))
    if (const auto steps = steps_in_name(entry.filename().string()); steps && *steps > newest.value_or(-1))
      newest = steps;
  return newest;
}

FoundCheckpoint find_checkpoint(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) fail<InputError>("{}: expected the folder of a checkpoint", path.string());
  const fs::path absolute = fs::canonical(path);  // `.` and a slash at the end have names, too
  if (const auto steps = steps_in_name(absolute.filename().string())) return {absolute.parent_path(), *steps};
  if (const auto steps = latest_in(absolute)) return {absolute, *steps};
  std::vector<FoundCheckpoint> variants;
  std::vector<std::string> names;
  for (const fs::path& folder : entries_of(path / "checkpoint")) {
    const auto steps = latest_in(folder);
    if (!steps) continue;
    variants.push_back({folder, *steps});
    names.push_back(folder.string());
  }
  if (variants.empty()) fail<InputError>("{}: there is no checkpoint in it", path.string());
  if (variants.size() > 1) fail<InputError>("{}: expected one of {}", path.string(), fmt::join(names, ", "));
  return variants.front();
}

}  // namespace heddle
