// One unit for a whole column or table of quantities, so that the heading states it: `peak memory (MiB)`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/description/byte_units.h"

namespace heddle {

/// The unit in which the values read best: the largest in which the smallest of them other than 0 is at least 1, or a
/// larger one where the largest value would have more than five digits. MiB, ms and GFLOP where there is no other value
/// than 0.
Unit unit_of_bytes(std::span<const double> values);
Unit unit_of_seconds(std::span<const double> values);
Unit unit_of_flops(std::span<const double> values);  // floating-point operations

/// `what (unit)`.
std::string heading(std::string_view what, const Unit& unit);

/// Two decimals below 10, one below 100, none from there on, and three below 1: `5214`, `36.7`, `9.48`, `0.003`, `0`.
std::string in_unit(double value, const Unit& unit);

/// The cell of a value that was not measured.
inline constexpr const char* absent = "-";

/// A column of one quantity, some of whose rows may be absent.
class Column {
 public:
  void add(std::optional<double> value) {
    cells_.push_back(value);
    if (value) values_.push_back(*value);
  }
  /// The values that are present.
  std::span<const double> values() const { return values_; }
  std::string cell(std::size_t row, const Unit& unit) const {
    return cells_[row] ? in_unit(*cells_[row], unit) : absent;
  }

 private:
  std::vector<std::optional<double>> cells_;
  std::vector<double> values_;
};

}  // namespace heddle
