#include "experiments/results/pictures/charts.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "experiments/results/pictures/chart_axis.h"
#include "experiments/results/pictures/svg_parts.h"
#include "framework/description/html_text.h"
#include "framework/description/text.h"

namespace heddle {

// The colours of Okabe and Ito (2008) that stand out from white as well as from black.
const std::string_view chart_style = R"(
svg{display:block;font:12px system-ui,sans-serif}
svg text{fill:var(--ink)}
svg .axis{stroke:var(--faint);fill:none}
svg .grid{stroke:var(--line);fill:none}
svg .line{fill:none;stroke-width:2}
.c0{stroke:#0072b2;fill:#0072b2}.c1{stroke:#d55e00;fill:#d55e00}.c2{stroke:#009e73;fill:#009e73}
.c3{stroke:#cc79a7;fill:#cc79a7}.c4{stroke:#e69f00;fill:#e69f00}.c5{stroke:#56b4e9;fill:#56b4e9}
.d1{stroke-dasharray:7 4}.d2{stroke-dasharray:2 3}.d3{stroke-dasharray:9 3 2 3}
.narrow{display:none}
@media(max-width:720px){.broad{display:none}.narrow{display:block}}
)";

namespace {

constexpr std::size_t colours = 6;
constexpr double left = 64;
constexpr double right = 16;
constexpr double legend_row = 18;

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return svg_text(x, y, text, fmt::format(" text-anchor=\"{}\"", anchor));
}

/// The class of the i-th series.
std::string series_class(std::size_t i) {
  return fmt::format("c{} d{}", i % colours, i / colours);
}

std::string begin_svg(double width, double height, std::string_view label) {
  return fmt::format(
      "<svg role=\"img\" aria-label=\"{}\" width=\"{:.0f}\" height=\"{:.0f}\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "xmlns=\"http://www.w3.org/2000/svg\">\n",
      html_text(label), width, height, width, height);
}

/// Rows of names with their colours, from `top` on.
class Legend {
 public:
  Legend(std::vector<std::string> names, double width) : names_(std::move(names)) {
    const auto longest = static_cast<std::size_t>(std::max(8.0, (width - right - 40) / svg_character));
    double x = 8;
    for (std::string& name : names_) {
      name = shorten(name, longest);
      const double needs = 40 + svg_character * static_cast<double>(width_of(name));
      if (x > 8 && x + needs > width - right) {
        x = 8;
        ++rows_;
      }
      places_.emplace_back(x, rows_);
      x += needs;
    }
  }
  double height() const { return legend_row * (rows_ + 1); }
  /// `boxes`: of bars; otherwise of lines.
  std::string to_svg(double top, bool boxes) const {
    std::string svg;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const double x = places_[i].first;
      const double y = top + legend_row * places_[i].second + 10;
      if (boxes)
        svg += fmt::format("<rect class=\"c{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"10\"/>", i % colours,
                           x + 8, y - 5);
      else
        svg +=
            fmt::format("<path class=\"line {}\" style=\"fill:none\" d=\"M{:.1f} {:.1f}h22\"/>", series_class(i), x, y);
      svg += text_at(x + 28, y + 4, "start", names_[i]);
    }
    return svg;
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::pair<double, int>> places_;
  int rows_ = 0;
};

/// A line through the points, of which at most one in each half pixel is kept.
std::string path_of(const LineSeries& line, const ChartAxis& x, const ChartAxis& y) {
  std::string path;
  double drawn = -std::numeric_limits<double>::infinity();
  bool is_on = false;
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const auto& [at, value] = line.points[i];
    const double px = x(at);
    if (!value) {
      is_on = false;
    } else if (!is_on || px >= drawn + 0.5 || i + 1 == line.points.size()) {
      path += fmt::format("{}{:.1f} {:.1f}", is_on ? "L" : "M", px, y(*value));
      if (!is_on) path += "h0.01";  // a point that stands alone is seen
      is_on = true;
      drawn = px;
    }
  }
  return path;
}

}  // namespace

std::string line_chart(std::span<const LineSeries> lines, std::string_view x_label, std::string_view y_label,
                       int width) {
  lines = lines.first(std::min(lines.size(), max_series));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::pair<double, double> xs{infinity, -infinity};
  std::pair<double, double> ys{infinity, -infinity};
  std::vector<std::string> names;
  for (const LineSeries& line : lines) {
    names.push_back(line.name);
    for (const auto& [x, y] : line.points) {
      if (!y) continue;
      xs = {std::min(xs.first, x), std::max(xs.second, x)};
      ys = {std::min(ys.first, *y), std::max(ys.second, *y)};
    }
  }
  if (xs.first == infinity) return "";
  constexpr double plot = 260;
  const Legend legend(names, width);
  const double top = legend.height() + 24;
  const double bottom = top + plot;
  const bool is_log = ys.first > 0 && ys.second > 100 * ys.first;
  const ChartAxis x(xs.first, xs.second, left, width - right);
  const ChartAxis y(is_log || ys.first < 0 ? ys.first : 0, ys.second, bottom, top, is_log);
  std::string svg = begin_svg(width, bottom + 44, fmt::format("{} by {}", y_label, x_label)) + legend.to_svg(0, false);
  for (const double tick : y.ticks(6))
    svg += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", left, y(tick), width - right) +
           text_at(left - 6, y(tick) + 4, "end", tick_text(tick));
  for (const double tick : x.ticks(std::max(2, width / 120)))
    svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}v4\"/>", x(tick), bottom) +
           text_at(x(tick), bottom + 18, "middle", tick_text(tick));
  svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\"/>\n", left, top, bottom, width - right);
  svg += text_at((left + width - right) / 2, bottom + 38, "middle", x_label);
  svg += fmt::format("<text transform=\"translate(14 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     (top + bottom) / 2, html_text(y_label));
  for (std::size_t i = 0; i < lines.size(); ++i)
    svg += fmt::format("<path class=\"line {}\" style=\"fill:none\" d=\"{}\"><title>{}</title></path>\n",
                       series_class(i), path_of(lines[i], x, y), html_text(lines[i].name));
  return svg + "</svg>\n";
}

std::string bar_chart(std::span<const StackedBar> bars, std::span<const std::string> part_names, std::string_view label,
                      const Unit& unit, int width) {
  constexpr double bar_height = 18;
  constexpr double bar_distance = 44;
  double greatest = 0;
  for (const StackedBar& bar : bars) {
    double sum = 0;
    for (const double part : bar.parts) sum += part / unit.size;
    greatest = std::max(greatest, sum);
  }
  if (greatest <= 0) return "";
  const Legend legend({part_names.begin(), part_names.end()}, width);
  const double top = legend.height() + 8;
  const double bottom = top + bar_distance * static_cast<double>(bars.size()) + 8;
  constexpr double begin = 8;
  const double end = width - 8 * svg_character;  // room for the bar's number
  const ChartAxis x(0, greatest, begin, end);
  const std::string title = heading(label, unit);
  std::string svg = begin_svg(width, bottom + 44, title) + legend.to_svg(0, true);
  for (const double tick : x.ticks(std::max(2, width / 120)))
    svg += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>", x(tick), top, bottom) +
           text_at(x(tick), bottom + 16, "middle", tick_text(tick));
  svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", begin, bottom, end);
  svg += text_at((begin + end) / 2, bottom + 36, "middle", title);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double y = top + bar_distance * static_cast<double>(i);
    svg += text_at(begin, y + 14, "start", shorten(bars[i].name, static_cast<std::size_t>(width / svg_character)));
    double sum = 0;
    for (std::size_t part = 0; part < bars[i].parts.size(); ++part) {
      const double next = sum + bars[i].parts[part] / unit.size;
      if (next > sum)
        svg += fmt::format(
            "<rect class=\"c{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\"><title>{}: {} "
            "{}</title></rect>",
            part % colours, x(sum), y + 20, x(next) - x(sum), bar_height, html_text(part_names[part]),
            in_unit(bars[i].parts[part], unit), unit.name);
      sum = next;
    }
    svg += text_at(x(sum) + 6, y + 33, "start", in_unit(sum * unit.size, unit));
  }
  return svg + "</svg>\n";
}

}  // namespace heddle
