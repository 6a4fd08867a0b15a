// The axes of figures, with their ticks at round numbers.
#pragma once

#include <string>
#include <vector>

namespace heddle {

/// An axis from the smallest to the largest of its values, linear or logarithmic, as pixels `from` to `to`.
class ChartAxis {
 public:
  ChartAxis(double least, double greatest, double from, double to, bool logarithmic = false);
  double operator()(double value) const { return from_ + (at(value) - least_) / (greatest_ - least_) * (to_ - from_); }
  bool is_logarithmic() const { return is_log_; }
  /// About `most` numbers, at most one more: fewer where their distance is below the rounding of the values, and powers
  /// of ten alone on a logarithmic axis that has no room for 1, 2 and 5 of each.
  std::vector<double> ticks(int most) const;

 private:
  double at(double value) const;

  double from_;
  double to_;
  bool is_log_;
  double least_ = 0;
  double greatest_ = 0;
};

std::string tick_text(double value);

}  // namespace heddle
