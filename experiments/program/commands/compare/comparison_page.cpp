#include <fmt/core.h>

#include "experiments/program/commands/compare/comparison.h"
#include "experiments/results/pictures/charts.h"
#include "notebooks_export/embedded_files.h"
#include "notebooks_export/page.h"

namespace heddle {

namespace {

constexpr int broad = 1000;  // pixels
constexpr int narrow = 360;

std::string html_table(const TextTable& table) {
  std::string html = "<div class=\"wide\"><table>\n";
  for (const auto& row : table) {
    const char* const cell = &row == &table.front() ? "th" : "td";
    html += "<tr>";
    for (const std::string& text : row) html += fmt::format("<{}>{}</{}>", cell, html_text(text), cell);
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

/// A figure in two widths, of which the page shows the one that fits the screen.
template <class Draw>
std::string in_two_widths(const Draw& draw) {
  return fmt::format("<div class=\"broad\">{}</div>\n<div class=\"narrow\">{}</div>\n", draw(broad), draw(narrow));
}

std::string losses_figure(const std::vector<ComparedRun>& runs) {
  std::vector<LineSeries> lines;
  for (const ComparedRun& run : runs) lines.push_back({run.name, run.losses});
  const auto draw = [&](int width) { return line_chart(lines, "step", "loss", width); };
  if (draw(broad).empty()) return "";
  std::string html = "<h2>Loss</h2>\n";
  if (lines.size() > max_series) html += fmt::format("<p>The first {} runs of {}.</p>\n", max_series, lines.size());
  return html + in_two_widths(draw);
}

std::string memory_figure(const std::vector<ComparedRun>& runs) {
  std::vector<StackedBar> bars;
  std::vector<std::string> categories;
  std::vector<double> totals;
  for (const ComparedRun& run : runs) {
    if (run.peak_bytes.empty()) continue;
    StackedBar& bar = bars.emplace_back(StackedBar{run.name, {}});
    categories.clear();
    for (const auto& [category, bytes] : run.peak_bytes) {
      categories.push_back(category);
      bar.parts.push_back(bytes);
    }
    totals.push_back(*run.peak_total());
  }
  const Unit unit = unit_of_bytes(totals);
  const auto draw = [&](int width) {
    return bar_chart(bars, categories, "peak memory of the fullest rank", unit, width);
  };
  return draw(broad).empty() ? "" : "<h2>Memory</h2>\n" + in_two_widths(draw);
}

std::string differences_html(const Comparison& comparison) {
  if (comparison.runs.size() < 2) return "";
  if (comparison.differing.empty()) return "<h2>Experiments</h2>\n<p>The experiments are equal.</p>\n";
  std::string html =
      "<h2>How the experiments differ</h2>\n<div class=\"wide\"><table class=\"keys\">\n"
      "<tr><th>key</th><th>value</th><th>runs</th></tr>\n";
  for (const Difference& difference : comparison.differing)
    for (const auto& [value, runs] : values_of(comparison, difference)) {
      std::string names;
      for (const std::string& run : runs) names += html_text(run) + (&run == &runs.back() ? "" : "<br>");
      html += fmt::format("<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>\n", html_text(difference.pointer),
                          value.empty() ? "(absent)" : "<code>" + html_text(value) + "</code>", names);
    }
  return html + "</table></div>\n";
}

}  // namespace

std::string comparison_page(const Comparison& comparison) {
  const std::string style =
      fmt::format("{}{}{}", embedded_file("pages/report.css"), chart_style, embedded_file("pages/compare.css"));
  std::string html = "<h1>Runs compared</h1>\n" + html_table(figures_table(comparison.runs));
  html += "<p>memory: the peak of the fullest rank; sent: by all ranks in all steps since the last start</p>\n";
  if (const TextTable table = accuracies_table(comparison.runs); !table.empty())
    html += "<h2>Accuracy (%)</h2>\n" + html_table(table);
  html += losses_figure(comparison.runs) + memory_figure(comparison.runs) + differences_html(comparison);
  return html_page("Runs compared", style, html);
}

}  // namespace heddle
