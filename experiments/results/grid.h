// Rows of cells under headers, for terminals.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace heddle {

inline constexpr int table_width = 100;

/// The first column is text and starts at the left, the others are right-aligned.
class Grid {
 public:
  explicit Grid(std::vector<std::string> headers) : rows_{std::move(headers)} {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// The first column gives way until the row fits; where that is not enough, the space between the columns.
  std::string to_text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Three digits that count, without an exponent.
std::string significant(double value);

}  // namespace heddle
