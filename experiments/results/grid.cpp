#include "experiments/results/grid.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include "framework/description/text.h"

namespace heddle {

std::string significant(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t min_first = 8;
constexpr std::size_t default_gap = 2;

std::vector<std::size_t> widths_of(const Rows& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  return widths;
}

/// The least width of a row whose columns have this gap between them.
std::size_t min_width(const std::vector<std::size_t>& widths, std::size_t gap) {
  std::size_t width = std::min(widths[0], min_first);
  for (std::size_t i = 1; i < widths.size(); ++i) width += gap + widths[i];
  return width;
}

/// The width of a row with the whole names of the first column.
std::size_t whole_width(const std::vector<std::size_t>& widths) {
  return min_width(widths, default_gap) - std::min(widths[0], min_first) + widths[0];
}

bool has_units(const Rows& rows) {
  return std::any_of(rows.front().begin(), rows.front().end(),
                     [](const std::string& header) { return header.find(" (") != std::string::npos; });
}

/// The same rows with the units of the headers, "(MiB)", in a row of their own.
Rows with_units_below(Rows rows) {
  std::vector<std::string> units(rows.front().size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    std::string& header = rows.front()[i];
    const std::size_t begin = header.rfind(" (");
    if (begin == std::string::npos) continue;
    units[i] = header.substr(begin + 1);
    header.erase(begin);
  }
  rows.insert(rows.begin() + 1, std::move(units));
  return rows;
}

/// Whether names that differ would be equal after `shorten`.
bool blurs_names(const Rows& rows, std::size_t width) {
  std::map<std::string, std::string> names;
  return std::any_of(rows.begin(), rows.end(), [&](const std::vector<std::string>& row) {
    return names.emplace(shorten(row[0], width), row[0]).first->second != row[0];
  });
}

}  // namespace

std::string Grid::to_text() const {
  Rows rows = rows_;
  // Narrower columns before names are cut.
  if (has_units(rows) && whole_width(widths_of(rows)) > table_width) rows = with_units_below(std::move(rows));
  std::vector<std::size_t> widths = widths_of(rows);
  const std::size_t gap = min_width(widths, default_gap) <= table_width ? default_gap : 1;
  const std::size_t others = min_width(widths, gap) - std::min(widths[0], min_first);
  const std::size_t first = std::max(table_width - std::min<std::size_t>(table_width, others), min_first);
  if (!keeps_first_whole_ && !blurs_names(rows, first)) widths[0] = std::min(widths[0], first);
  std::string text;
  for (const auto& row : rows) {
    std::string line = shorten(row[0], widths[0]);
    line.append(widths[0] - width_of(line), ' ');
    for (std::size_t i = 1; i < row.size(); ++i) line.append(gap + widths[i] - width_of(row[i]), ' ').append(row[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace heddle
