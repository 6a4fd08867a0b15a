#include "experiments/program/schedule/report.h"

#include <algorithm>
#include <optional>
#include <span>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "experiments/program/schedule/picture.h"
#include "framework/description/text.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// The number of stages of each rank, of one copy; nothing if the numbers differ.
std::optional<int> chunks_per_rank(const Schedule& schedule) {
  std::vector<int> counts(schedule.ranks.size());
  for (const int rank : schedule.rank_of) ++counts[static_cast<std::size_t>(rank)];
  const bool are_equal = std::all_of(counts.begin(), counts.end(), [&](int count) { return count == counts.front(); });
  return are_equal ? std::optional(counts.front()) : std::nullopt;
}

std::string stages_text(const Schedule& schedule) {
  if (schedule.copies() > 1) return fmt::format(", {} copies of {} stages", schedule.copies(), schedule.stages());
  const std::optional<int> chunks = chunks_per_rank(schedule);
  if (!chunks) return fmt::format(", {} stages", schedule.stages());
  return *chunks == 1 ? "" : fmt::format(", {} stages per rank", *chunks);
}

std::string figure(std::string_view what, std::string_view value, std::string_view meaning) {
  return fmt::format("{:<20}{:<10}  {}\n", what, value, meaning);
}

/// `4 3 2 1`, `4 on every rank`, or the range of very many ranks.
std::string by_rank(std::span<const double> values) {
  constexpr std::size_t max_texts = 16;
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(plain_number(value));
  if (std::all_of(texts.begin(), texts.end(), [&](const std::string& text) { return text == texts.front(); }))
    return texts.front() + (texts.size() > 1 ? " on every rank" : "");
  if (texts.size() <= max_texts) return fmt::format("{}", fmt::join(texts, " "));
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  return fmt::format("{} to {}, the most on rank {}", plain_number(*least), plain_number(*greatest),
                     greatest - values.begin());
}

}  // namespace

std::string schedule_title(const ScheduleReport& report) {
  return fmt::format("{}: {}, {}{}", report.name, counted(report.schedule.size(), "rank", "ranks"),
                     counted(report.schedule.micro_batches, "micro-batch", "micro-batches"),
                     stages_text(report.schedule));
}

std::string schedule_figures(const ScheduleReport& report) {
  const Simulation& simulation = report.simulation;
  const auto percent = [](double share) { return fmt::format("{:.2f} %", 100 * share); };
  return figure("makespan", plain_number(simulation.step_time), "from the first action to the end of the last") +
         figure("span bubble", percent(simulation.timeline.span_bubble()),
                "idle time between a rank's first and last action, as papers report it") +
         figure("idle", percent(simulation.timeline.idle_fraction()), "share of all ranks' time within the makespan") +
         fmt::format("{:<20}{}\n", "peak activations", by_rank(simulation.peak_activations)) +
         fmt::format("{:<20}{}\n", "peak weight inputs", by_rank(simulation.peak_weight_inputs)) +
         (report.schedule.copies() > 1 ? fmt::format("{:<20}twice those of one copy, on every rank\n", "parameters")
                                       : "") +
         (has_offload(report.schedule) ? fmt::format("{:<20}{}\n", "peak offloaded", by_rank(simulation.peak_offloaded))
                                       : "") +
         "(rank by rank, in units of a micro-batch on a whole rank; weight inputs: kept from I to W)\n" +
         (report.critical ? "\n" + critical_path_table(*report.critical) : "");
}

std::string schedule_json(const ScheduleReport& report) {
  const Simulation& simulation = report.simulation;
  const std::optional<int> chunks = chunks_per_rank(report.schedule);
  OrderedJson json{{"name", report.name},
                   {"ranks", report.schedule.size()},
                   {"stages", report.schedule.stages()},
                   {"chunks", chunks ? OrderedJson(*chunks) : OrderedJson()},
                   {"copies", report.schedule.copies()},
                   {"micro_batches", report.schedule.micro_batches},
                   {"makespan", simulation.step_time},
                   {"span_bubble", simulation.timeline.span_bubble()},
                   {"idle_fraction", simulation.timeline.idle_fraction()},
                   {"peak_activations", simulation.peak_activations},
                   {"peak_weight_inputs", simulation.peak_weight_inputs},
                   {"peak_offloaded", simulation.peak_offloaded}};
  if (report.critical) json["critical_path"] = critical_path_json(*report.critical, simulation.timeline);
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace heddle
