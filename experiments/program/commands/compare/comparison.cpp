#include "experiments/program/commands/compare/comparison.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "experiments/results/accuracy_tables.h"
#include "experiments/results/grid.h"
#include "experiments/results/table.h"
#include "experiments/results/units.h"
#include "framework/description/printable.h"
#include "framework/description/text.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

template <class T>
OrderedJson or_null(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

std::string grid_text(const TextTable& table) {
  Grid grid(table.front());
  for (std::size_t i = 1; i < table.size(); ++i) grid.add(table[i]);
  return grid.to_text();
}

std::string losses(const ComparedRun& run) {
  if (!run.first_loss || !run.last_loss) return absent;
  return fmt::format("{:.5g} -> {:.5g}", *run.first_loss, *run.last_loss);
}

/// The names of the runs with a value; those of most runs are not listed if they are many.
std::string names_of(const Comparison& comparison, const std::vector<std::string>& runs) {
  constexpr std::size_t max_listed = 3;
  if (runs.size() > max_listed && 2 * runs.size() > comparison.runs.size())
    return fmt::format("the other {} runs", runs.size());
  std::string names;
  for (const std::string& run : runs) names += (names.empty() ? "" : ", ") + printable(run);
  return names;
}

/// A value as JSON text, on one line of the table.
std::string short_value(const std::string& value) {
  return value.empty() ? "(absent)" : shorten(printable(value), 60);
}

}  // namespace

TextTable figures_table(const std::vector<ComparedRun>& runs) {
  Column times;
  Column memory;
  Column traffic;
  for (const ComparedRun& run : runs) {
    times.add(run.step_seconds);
    memory.add(run.peak_total());
    traffic.add(run.sent_bytes);
  }
  const Unit time = unit_of_seconds(times.values());
  const Unit held = unit_of_bytes(memory.values());
  const Unit sent = unit_of_bytes(traffic.values());
  TextTable table{
      {"run", "steps", "loss", heading("step time", time), "images/s", heading("memory", held), heading("sent", sent)}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ComparedRun& run = runs[i];
    table.push_back({printable(run.name), fmt::format("{}", run.steps), losses(run), times.cell(i, time),
                     run.images_per_second ? significant(*run.images_per_second) : absent, memory.cell(i, held),
                     traffic.cell(i, sent)});
  }
  return table;
}

TextTable accuracies_table(const std::vector<ComparedRun>& runs) {
  std::vector<std::string> names;
  for (const ComparedRun& run : runs)
    for (const auto& [name, accuracy] : run.accuracies)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  if (names.empty()) return {};
  TextTable table{{"run"}};
  for (const std::string& name : names) table.front().push_back(printable(name));
  for (const ComparedRun& run : runs) {
    std::vector<std::string>& row = table.emplace_back(1, printable(run.name));
    for (const std::string& name : names) {
      const auto found = std::find_if(run.accuracies.begin(), run.accuracies.end(),
                                      [&](const auto& accuracy) { return accuracy.first == name; });
      row.push_back(found == run.accuracies.end() ? absent : percent(found->second));
    }
  }
  return table;
}

std::vector<std::pair<std::string, std::vector<std::string>>> values_of(const Comparison& comparison,
                                                                        const Difference& difference) {
  std::vector<std::pair<std::string, std::vector<std::string>>> values;
  for (std::size_t i = 0; i < difference.values.size(); ++i) {
    const std::string& value = difference.values[i];
    auto found = std::find_if(values.begin(), values.end(), [&](const auto& other) { return other.first == value; });
    if (found == values.end()) found = values.insert(found, {value, {}});
    found->second.push_back(comparison.runs[i].name);
  }
  return values;
}

std::string comparison_text(const Comparison& comparison) {
  std::string text = grid_text(figures_table(comparison.runs));
  text += "memory: the peak of the fullest rank; sent: by all ranks in all steps since the last start\n";
  for (const ComparedRun& run : comparison.runs)
    if (run.status != "ok") text += fmt::format("{}: {}\n", printable(run.name), printable(run.status));
  if (std::any_of(comparison.runs.begin(), comparison.runs.end(),
                  [](const ComparedRun& run) { return run.clock == "virtual"; }))
    text += "some times are virtual\n";
  if (const TextTable table = accuracies_table(comparison.runs); !table.empty())
    text += "\naccuracy (%)\n" + grid_text(table);
  if (comparison.runs.size() < 2) return text;
  text += comparison.differing.empty() ? "\nthe experiments are equal\n" : "\nhow the experiments differ\n";
  for (const Difference& difference : comparison.differing) {
    text += printable(difference.pointer) + "\n";
    const auto values = values_of(comparison, difference);
    std::size_t width = 0;
    for (const auto& [value, runs] : values) width = std::max(width, width_of(short_value(value)));
    for (const auto& [value, runs] : values) {
      std::string line = "  " + short_value(value);
      line.append(width + 4 - width_of(line), ' ');
      line += names_of(comparison, runs);
      text += wrap(line, table_width, width + 4);
    }
  }
  return text;
}

std::string comparison_json(const Comparison& comparison) {
  OrderedJson runs = OrderedJson::array();
  for (const ComparedRun& run : comparison.runs) {
    OrderedJson accuracies = OrderedJson::object();
    for (const auto& [name, accuracy] : run.accuracies) accuracies[name] = accuracy;
    OrderedJson peak = {{"total", or_null(run.peak_total())}};
    for (const auto& [category, bytes] : run.peak_bytes) peak[category] = bytes;
    runs.push_back({{"folder", run.folder},
                    {"variant", run.variant},
                    {"status", run.status},
                    {"steps", run.steps},
                    {"loss", {{"first", or_null(run.first_loss)}, {"last", or_null(run.last_loss)}}},
                    {"accuracy", accuracies},
                    {"clock", run.clock},
                    {"step_seconds", or_null(run.step_seconds)},
                    {"samples_per_second", or_null(run.images_per_second)},
                    {"peak_bytes", peak},
                    {"sent_bytes", or_null(run.sent_bytes)}});
  }
  OrderedJson differing = OrderedJson::array();
  for (const Difference& difference : comparison.differing) {
    OrderedJson values = OrderedJson::array();
    for (const std::string& value : difference.values)
      values.push_back(value.empty() ? OrderedJson(nullptr) : OrderedJson::parse(value));
    differing.push_back({{"pointer", difference.pointer}, {"values", std::move(values)}});
  }
  return OrderedJson{{"runs", std::move(runs)}, {"differences", std::move(differing)}}.dump(
             2, ' ', false, OrderedJson::error_handler_t::replace) +
         "\n";
}

}  // namespace heddle
