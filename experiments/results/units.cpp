#include "experiments/results/units.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/core.h>

#include "experiments/results/grid.h"

namespace heddle {

namespace {

constexpr std::array flop_units{Unit{"FLOP", 1}, Unit{"MFLOP", 1e6}, Unit{"GFLOP", 1e9}, Unit{"TFLOP", 1e12},
                                Unit{"PFLOP", 1e15}};
constexpr std::array second_units{Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1}};

/// `units` grow; `usual` is the one where there is no value other than 0.
Unit best_of(std::span<const Unit> units, const Unit& usual, std::span<const double> values) {
  constexpr double max_digits = 1e5;
  double least = 0;
  double greatest = 0;
  for (const double value : values) {
    const double size = std::abs(value);
    if (size > 0) least = least > 0 ? std::min(least, size) : size;
    greatest = std::max(greatest, size);
  }
  if (greatest == 0) return usual;
  Unit best = units.front();
  for (const Unit& unit : units)
    if (least >= unit.size || greatest >= max_digits * best.size) best = unit;
  return best;
}

}  // namespace

Unit unit_of_bytes(std::span<const double> values) {
  return best_of(byte_units, byte_units[2], values);
}

Unit unit_of_seconds(std::span<const double> values) {
  return best_of(second_units, second_units[1], values);
}

Unit unit_of_flops(std::span<const double> values) {
  return best_of(flop_units, flop_units[2], values);
}

std::string heading(std::string_view what, const Unit& unit) {
  return fmt::format("{} ({})", what, unit.name);
}

std::string in_unit(double value, const Unit& unit) {
  const double shown = value / unit.size;
  if (shown == 0) return "0";
  return std::abs(shown) < 1 ? fmt::format("{:.3f}", shown) : significant(shown);
}

}  // namespace heddle
