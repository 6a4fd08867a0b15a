// The lines of a list of images, in each of its formats.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// The fields of a line of CSV (RFC 4180): a field in quotes may hold commas, and quotes that are doubled. InputError,
/// which names the place, on quotes that do not end on the line or stand within a field.
std::vector<std::string> csv_fields(const std::string& path, std::int64_t number, std::string_view line);

/// Which columns of a CSV file hold paths and labels. Without names, lines are a path and a label with a tab or a blank
/// between them: the last one, for paths may hold blanks.
struct ListColumns {
  std::string path;
  std::string label;
};

/// Calls `use(line number, path, label)` for every line that is not empty. InputError if a line has no path or no
/// label.
void read_list(const std::string& path, const ListColumns& columns,
               const std::function<void(std::int64_t, std::string_view, std::string_view)>& use);

}  // namespace heddle
