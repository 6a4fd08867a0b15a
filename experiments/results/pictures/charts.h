// Figures of HTML pages as SVG, with labelled axes. Colours can be told apart by the colour-blind, and text and lines
// follow the page between light and dark.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/results/units.h"

namespace heddle {

/// The rules that the figures need in the style of their page.
extern const std::string_view chart_style;

/// The most series that differ in colour or dashes.
inline constexpr std::size_t max_series = 24;

/// Points in the order of x; an absent y interrupts the line.
struct LineSeries {
  std::string name;
  std::vector<std::pair<double, std::optional<double>>> points;
};

/// The first `max_series` of the lines under a legend. The y axis is logarithmic if all values are positive and span
/// more than two powers of ten. `width` in pixels.
std::string line_chart(std::span<const LineSeries> lines, std::string_view x_label, std::string_view y_label,
                       int width);

struct StackedBar {
  std::string name;
  std::vector<double> parts;
};

/// Horizontal bars, one below the other, with a legend of their parts.
std::string bar_chart(std::span<const StackedBar> bars, std::span<const std::string> part_names, std::string_view label,
                      const Unit& unit, int width);

}  // namespace heddle
