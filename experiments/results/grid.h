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
  /// Does not shorten the first column, however wide the rows become.
  void keep_first_whole() { keeps_first_whole_ = true; }
  /// A row that is too wide is made to fit: the units of the headers move into a line of their own, then the first
  /// column is shortened, then the space between the columns shrinks. The first column stays whole, however wide, if
  /// different names would become equal.
  std::string to_text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  bool keeps_first_whole_ = false;
};

/// Two decimals below 10, one below 100, none from there on; without an exponent.
std::string significant(double value);

}  // namespace heddle
