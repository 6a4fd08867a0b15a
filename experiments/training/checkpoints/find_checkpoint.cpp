#include "experiments/training/checkpoints/find_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "experiments/training/checkpoints/partial_folder.h"
#include "framework/error.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& path) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    entries.push_back(entry->path());
  if (error && error != std::errc::no_such_file_or_directory)
    fail<InputError>("{}: cannot be read as a folder: {}", path.string(), error.message());
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

std::string step_name(std::int64_t steps) {
  return fmt::format("step-{:06}", steps);
}

std::optional<std::int64_t> latest_in(const fs::path& path, std::optional<std::int64_t> before) {
  std::optional<std::int64_t> newest;
  for (const fs::path& entry : entries_of(path))
    if (const auto steps = steps_in_name(entry.filename().string());
        steps && *steps > newest.value_or(-1) && (!before || *steps < *before))
      newest = steps;
  return newest;
}

std::vector<FoundCheckpoint> checkpoints_of_results(const fs::path& results) {
  std::vector<FoundCheckpoint> newest;
  for (const fs::path& folder : entries_of(results / "checkpoint"))
    if (const auto steps = latest_in(folder)) newest.push_back({folder, *steps});
  return newest;
}

std::vector<FoundCheckpoint> best_checkpoints_of_results(const fs::path& results) {
  std::vector<FoundCheckpoint> best;
  for (const fs::path& folder : entries_of(results / "checkpoint"))
    if (const auto steps = latest_in(folder / "best")) best.push_back({folder / "best", *steps});
  return best;
}

void remove_old(const fs::path& folder, std::int64_t steps_done, std::int64_t keep) {
  std::vector<std::pair<std::int64_t, fs::path>> whole;
  std::vector<fs::path> old;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (const auto steps = steps_in_name(name); steps && *steps <= steps_done) whole.emplace_back(*steps, entry.path());
    if (PartialFolder::is_partial(entry.path()) && steps_in_name(entry.path().stem().string()))
      old.push_back(entry.path());
  }
  std::sort(whole.rbegin(), whole.rend());
  for (std::size_t i = static_cast<std::size_t>(keep); i < whole.size(); ++i) old.push_back(whole[i].second);
  for (const fs::path& path : old) fs::remove_all(path, ignored);
}

void remove_all_of(const fs::path& folder) {
  remove_old(folder, std::numeric_limits<std::int64_t>::max(), 0);
  if (const auto steps = latest_in(folder))
    fail<InputError>("{}: the checkpoint of an earlier run cannot be removed", (folder / step_name(*steps)).string());
}

void remove_after(const fs::path& folder, std::int64_t steps_done) {
  for (std::optional<std::int64_t> before, steps; (steps = latest_in(folder, before)) && *steps > steps_done;
       before = steps) {
    std::error_code error;
    fs::remove_all(folder / step_name(*steps), error);
    if (error)
      fail<InputError>("{}: the checkpoint cannot be removed: {}", (folder / step_name(*steps)).string(),
                       error.message());
  }
}

void remove_checkpoints_of_results(const fs::path& results) {
  std::vector<fs::path> variants;
  for (const FoundCheckpoint& checkpoint : checkpoints_of_results(results)) variants.push_back(checkpoint.folder);
  for (const FoundCheckpoint& best : best_checkpoints_of_results(results))
    variants.push_back(best.folder.parent_path());
  for (const fs::path& variant : variants)
    for (const fs::path& folder : {variant / "best", variant}) {
      remove_all_of(folder);
      std::error_code other_files;
      fs::remove(folder, other_files);
    }
}

FoundCheckpoint find_checkpoint(const fs::path& path) {
  std::error_code error;
  if (fs::status(path, error).type() == fs::file_type::not_found)
    fail<InputError>("{}: does not exist: expected the folder of a checkpoint", path.string());
  if (!fs::is_directory(path, error)) fail<InputError>("{}: expected the folder of a checkpoint", path.string());
  const fs::path absolute = fs::canonical(path);  // `.` and a slash at the end have names, too
  if (const auto steps = steps_in_name(absolute.filename().string())) return {absolute.parent_path(), *steps};
  if (const auto steps = latest_in(absolute)) return {absolute, *steps};
  const std::vector<FoundCheckpoint> variants = checkpoints_of_results(path);
  if (variants.empty()) fail<InputError>("{}: there is no checkpoint in it", path.string());
  if (variants.size() > 1) {
    std::vector<std::string> names;
    for (const FoundCheckpoint& variant : variants) names.push_back(variant.folder.string());
    fail<InputError>("{}: expected one of {}", path.string(), fmt::join(names, ", "));
  }
  return variants.front();
}

}  // namespace heddle
