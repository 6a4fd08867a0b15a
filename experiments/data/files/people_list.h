// Lists of people, as they come with Labeled Faces in the Wild: people whose images are for training, or for testing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

struct ListedPerson {
  std::string name;
  std::optional<std::int64_t> images{};  // if the list gives it
  std::int64_t line = 0;
};

/// Reads a list. A file with tabs has LFW's format: the number of people, then `name<tab>images` for each; or the
/// number of folds, then the same for each fold. A file without tabs has one name in each line. Empty lines are
/// skipped. InputError on anything else, on a name that is listed twice, and on numbers that do not agree with the
/// lines.
std::vector<ListedPerson> read_people(const std::string& path);

}  // namespace heddle
