// The lines of a list of images, in each of its formats.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// The fields of a line of CSV (RFC 4180). A field in quotes may contain commas, and quotes that are doubled.
/// InputError with the file and the line if a quote has no end on the line, or is inside a field without quotes.
std::vector<std::string> csv_fields(const std::string& path, std::int64_t number, std::string_view line);

/// The columns of a CSV file that hold paths and labels. Without names the list is plain text: each line has a path and
/// a label, separated by the last tab or, without tabs, by the last blank, because paths may contain blanks.
struct ListColumns {
  std::string path;
  std::string label;
};

/// Calls `use(line number, path, label)` for every line that is not empty. InputError if a line has no path or no
/// label.
void read_list(const std::string& path, const ListColumns& columns,
               const std::function<void(std::int64_t, std::string_view, std::string_view)>& use);

}  // namespace heddle
