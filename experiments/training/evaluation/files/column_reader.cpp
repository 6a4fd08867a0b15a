#include "experiments/training/evaluation/files/column_reader.h"

#include <algorithm>

namespace heddle {

bool ColumnReader::next() {
  do {
    if (!TextLines::next()) return false;
    split();
  } while (columns_.empty());
  return true;
}

void ColumnReader::split() {
  columns_.clear();
  const std::string_view separators = line().find('\t') == std::string_view::npos ? " " : "\t";
  std::string_view rest = line();
  while (columns_.size() <= max_columns) {
    rest.remove_prefix(std::min(rest.find_first_not_of(separators), rest.size()));
    if (rest.empty()) return;
    columns_.push_back(rest.substr(0, rest.find_first_of(separators)));
    rest.remove_prefix(columns_.back().size());
  }
}

}  // namespace heddle
