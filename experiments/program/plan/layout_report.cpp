#include "experiments/program/plan/layout_report.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/results/grid.h"
#include "experiments/results/units.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

namespace {

std::string_view short_name(LayoutOption option) {
  const std::string_view name = name_of(option);
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

constexpr const char* estimate_mark = "~";

/// A table of layouts. Options that are the same in all of them are listed above it instead.
std::string layout_table(const LayoutReport& report, std::span<const LayoutCandidate> layouts) {
  std::vector<LayoutOption> columns;
  std::vector<std::string> common;
  for (const LayoutOption option : all_of<LayoutOption>) {
    const std::string first = value_of(layouts.front().layout, option);
    const bool is_common = std::all_of(layouts.begin(), layouts.end(), [&](const LayoutCandidate& each) {
      return value_of(each.layout, option) == first;
    });
    if (option == LayoutOption::mesh || !is_common)
      columns.push_back(option);
    else
      common.push_back(fmt::format("{} {}", name_of(option), first));
  }
  Column seconds;
  Column memories;
  for (const LayoutCandidate& each : layouts) {
    seconds.add(each.figures.seconds);
    memories.add(report.memory_of(each));
  }
  const Unit time = unit_of_seconds(seconds.values());
  const Unit memory = report.memory_unit(memories.values());
  std::vector<std::string> headings;
  for (const LayoutOption option : columns) headings.emplace_back(short_name(option));
  headings.push_back(heading("step time", time));
  headings.push_back(heading("peak memory", memory));
  const bool has_too_large = !std::ranges::all_of(layouts, &LayoutCandidate::fits);
  if (has_too_large) headings.emplace_back("fits");
  Grid grid(headings);
  grid.keep_first_whole();
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    std::vector<std::string> row;
    for (const LayoutOption option : columns) row.push_back(value_of(layouts[i].layout, option));
    row.push_back((layouts[i].is_planned() ? "" : estimate_mark) + seconds.cell(i, time));
    row.push_back(memories.cell(i, memory));
    if (has_too_large) row.emplace_back(layouts[i].fits ? "yes" : "no");
    grid.add(std::move(row));
  }
  return (common.empty() ? "" : fmt::format("all of them: {}\n", fmt::join(common, ", "))) + grid.to_text();
}

bool has_estimates(const LayoutSearchResult& result) {
  const auto is_estimated = [](const LayoutCandidate& each) { return !each.is_planned(); };
  return std::any_of(result.best.begin(), result.best.end(), is_estimated) ||
         std::any_of(result.front.begin(), result.front.end(), is_estimated) ||
         (result.written && !result.written->is_planned());
}

std::string changes_text(const LayoutReport& report) {
  if (!report.result.written) return "";
  const LayoutCandidate& written = *report.result.written;
  if (mesh_of(written.layout.mesh).size() != report.ranks) return "";
  if (report.result.changes.empty()) return "\nno layout that was tried fits and differs from the file in one option\n";
  Grid grid({"option", "from", "to", "step time (%)", "peak memory (%)"});
  const auto percent = [](double now, double before) { return fmt::format("{:+.1f}", 100 * (now / before - 1)); };
  for (const LayoutChange& change : report.result.changes)
    grid.add({std::string(name_of(change.option)), value_of(written.layout, change.option),
              value_of(change.changed.layout, change.option),
              percent(change.changed.figures.seconds, written.figures.seconds),
              percent(report.memory_of(change.changed), report.memory_of(written))});
  return "\neach option alone changed to its best other value, compared with the file\n" + grid.to_text();
}

}  // namespace

double LayoutReport::memory_of(const LayoutCandidate& candidate) const {
  return rank_budgets.empty() ? static_cast<double>(candidate.figures.bytes) : 100 * candidate.figures.fullness;
}

Unit LayoutReport::memory_unit(std::span<const double> memories) const {
  return rank_budgets.empty() ? unit_of_bytes(memories) : Unit{"% of the rank's budget", 1};
}

std::string LayoutReport::memory_words(const LayoutCandidate& candidate) const {
  if (rank_budgets.empty()) return format_bytes(candidate.figures.bytes);
  return significant(memory_of(candidate)) + " % of the rank's budget";
}

double LayoutReport::memory_limit() const {
  return rank_budgets.empty() ? static_cast<double>(budget) : 100;
}

std::string figures_words(const LayoutReport& report, const LayoutCandidate& candidate) {
  const std::array seconds{candidate.figures.seconds};
  const Unit unit = unit_of_seconds(seconds);
  return fmt::format("{}{} {}, {}", candidate.is_planned() ? "" : estimate_mark, in_unit(seconds[0], unit), unit.name,
                     report.memory_words(candidate));
}

std::string layout_text(const LayoutReport& report) {
  const LayoutSearchResult& result = report.result;
  std::string text =
      fmt::format("{}: the fastest layouts of {}{}\n", report.name, counted(report.ranks, "rank", "ranks"),
                  !report.rank_budgets.empty() ? " within ranks.memory_budget"
                  : report.budget > 0          ? " within " + format_bytes(report.budget) + " each"
                                               : "");
  text += layout_table(report, result.best);
  if (result.has_equal_layouts)
    text += "Of layouts whose times and memory agree within 0.1 %, only the fastest one is listed.\n";
  if (result.written)
    text += fmt::format("\nthe file itself ({}): {}{}\n", value_of(result.written->layout, LayoutOption::mesh),
                        figures_words(report, *result.written), result.written->fits ? "" : ", which does not fit");
  text += changes_text(report);
  text += "\ntime against memory: no layout that was tried is both faster and smaller than one of these\n" +
          layout_table(report, result.front);
  const std::array bound{result.bound};
  const Unit unit = unit_of_seconds(bound);
  text += fmt::format(
      "\nLower bound: {} {}, the operations of a step at the full speed of all ranks, without messages, idle ranks and "
      "reads of memory. The fastest layout takes {} % more.\n",
      in_unit(result.bound, unit), unit.name,
      significant(100 * (result.best.front().figures.seconds / result.bound - 1)));
  text += "times are modelled: kernels by `profile`, messages by `links`\n";
  if (result.norm_groups)
    text +=
        fmt::format("All layouts let batch norms normalise {} of the batch, as the file does (--allow norm_groups).\n",
                    counted(*result.norm_groups, "part", "parts"));
  text += fmt::format("Up to {} layouts are possible; {} were estimated, {} planned.", result.considered,
                      result.estimated, result.planned);
  if (has_estimates(result))
    text += fmt::format(" {} marks estimates, of layouts that were not planned.", estimate_mark);
  if (!result.best.front().is_planned()) text += " `plan` of the experiment that is written gives its exact figures.";
  if (result.is_interrupted)
    text += " The search was interrupted: better layouts may exist.";
  else if (result.is_exhausted)
    text += " The search ended when it had planned as much as it may: better layouts may exist.";
  return text + "\n";
}

std::string why_none_fits(const LayoutReport& report) {
  const LayoutCandidate& smallest = report.result.smallest;
  const LayoutFigures& figures = smallest.figures;
  const std::string least =
      report.rank_budgets.empty()
          ? fmt::format("into {} per rank: the smallest peak is {}", format_bytes(report.budget),
                        format_bytes(figures.bytes))
          : fmt::format(
                "into ranks.memory_budget: the one that exceeds it least takes {} on rank {}, {} times its budget",
                format_bytes(figures.bytes), figures.rank, significant(figures.fullness));
  std::string why =
      fmt::format("{}: no layout that was tried fits {}, of {}", report.name, least, to_string(smallest.layout));
  if (figures.peak) {
    const auto& bytes = figures.peak->bytes;
    const auto largest = std::max_element(bytes.begin(), bytes.end());
    const auto category = static_cast<Category>(largest - bytes.begin());
    why += fmt::format("; there {} of rank {} take {}", name_of(category), figures.rank, format_bytes(*largest));
  }
  return why;
}

}  // namespace heddle
