#include "experiments/results/grid.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "experiments/results/text.h"

namespace heddle {

std::string significant(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

std::string Grid::to_text() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::size_t others = 0;
  for (std::size_t i = 1; i < widths.size(); ++i) others += widths[i];
  constexpr std::size_t least_first = 8;
  const std::size_t gaps = widths.size() - 1;
  const std::size_t gap = others + 2 * gaps + std::min(widths[0], least_first) <= table_width ? 2 : 1;
  const std::size_t room = table_width - std::min<std::size_t>(table_width, others + gap * gaps);
  widths[0] = std::min(widths[0], std::max(room, least_first));
  std::string text;
  for (const auto& row : rows_) {
    std::string line = shorten(row[0], widths[0]);
    line.append(widths[0] - width_of(line), ' ');
    for (std::size_t i = 1; i < row.size(); ++i) line.append(gap + widths[i] - width_of(row[i]), ' ').append(row[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace heddle
