// Splits the lines of an evaluation list into columns. Lists are not trusted; `TextLines` documents what is refused.
#pragma once

#include <string_view>
#include <vector>

#include "experiments/data/files/text_lines.h"

namespace heddle {

class ColumnReader : public TextLines {
 public:
  using TextLines::TextLines;

  /// Advances to the next line that is not blank; false at the end of the file.
  bool next();
  /// The columns of the line, valid until the next call of `next`. They are separated by tabs, or by blanks in a line
  /// without tabs. There are at most `max_columns` + 1, so that a line with too many is noticed.
  const std::vector<std::string_view>& columns() const { return columns_; }

  static constexpr std::size_t max_columns = 4;

 private:
  void split();

  std::vector<std::string_view> columns_;
};

}  // namespace heddle
