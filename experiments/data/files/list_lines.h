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

/// Calls `use(line number, first, second)` for every line that is not empty of a plain list: two texts that the last
/// tab separates or, without tabs, the last blank. InputError, with `expected` in words, if a line has none of them.
void for_each_pair(const std::string& path, std::string_view expected,
                   const std::function<void(std::int64_t, std::string_view, std::string_view)>& use);

/// The columns of a CSV file that hold paths, labels and, if it has them, weights. Without names the list is plain
/// text: each line has a path and a label, separated by the last tab or, without tabs, by the last blank, because paths
/// may contain blanks.
struct ListColumns {
  std::string path;
  std::string label;
  std::string weight{};
};

struct ListedSample {
  std::int64_t line = 0;
  std::string_view path;
  std::string_view label;
  std::string_view weight{};  // empty if the list has no column of weights
};

/// Calls `use` for every line that is not empty. InputError if a line lacks one of the columns.
void read_list(const std::string& path, const ListColumns& columns,
               const std::function<void(const ListedSample&)>& use);

}  // namespace heddle
