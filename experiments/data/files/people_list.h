// Lists of people, as Labeled Faces in the Wild comes with them: who trains, and who is tested.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct ListedPerson {
  std::string name;
  std::int64_t images = -1;  ///< -1 where the list does not say
  std::int64_t line = 0;
};

/// A file with tabs is one of LFW: the number of people, then `name<tab>images` for each; or the number of folds, then
/// for each fold as much. A file without tabs has one name in each line. Empty lines are passed over. InputError on
/// anything else, on a name that comes twice, and on numbers that do not agree with the lines.
std::vector<ListedPerson> read_people(const std::string& path);

}  // namespace heddle
