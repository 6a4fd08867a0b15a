// Compares two numbers relative to their size. doctest::Approx adds its tolerance to that of the number, unless
// `.scale(0)` is given: with a tolerance of 0.1, all numbers below 0.1 would be equal.
#pragma once

#include <algorithm>
#include <cmath>
#include <ostream>

namespace heddle::test {

class CloseTo {
 public:
  explicit CloseTo(double value) : value_(value) {}

  /// The tolerance as a part of the larger number. Without one, 1e-5.
  CloseTo epsilon(double tolerance) const {
    CloseTo result = *this;
    result.tolerance_ = tolerance;
    return result;
  }

  friend bool operator==(double found, const CloseTo& expected) { return expected.equals(found); }
  friend bool operator!=(double found, const CloseTo& expected) { return !expected.equals(found); }
  friend bool operator<=(double found, const CloseTo& limit) { return found < limit.value_ || limit.equals(found); }
  friend bool operator>=(double found, const CloseTo& limit) { return found > limit.value_ || limit.equals(found); }
  friend std::ostream& operator<<(std::ostream& out, const CloseTo& number) {
    return out << number.value_ << " * (1 +- " << number.tolerance_ << ")";
  }

 private:
  bool equals(double found) const {
    if (found == value_ || !std::isfinite(found) || !std::isfinite(value_)) return found == value_;
    return std::abs(found - value_) <= tolerance_ * std::max(std::abs(found), std::abs(value_));
  }

  double value_;
  double tolerance_ = 1e-5;
};

/// found == close_to(expected).epsilon(1e-6)
inline CloseTo close_to(double value) {
  return CloseTo(value);
}

}  // namespace heddle::test
