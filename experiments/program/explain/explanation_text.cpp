#include <fmt/ranges.h>

#include "experiments/program/explain/explanation.h"
#include "experiments/results/grid.h"
#include "experiments/results/table.h"
#include "experiments/results/text.h"
#include "framework/description/describe.h"
#include "framework/tensors/memory.h"

namespace heddle {

namespace {

std::string count(double number) {
  if (number < 999.5) return fmt::format("{:.0f}", number);
  for (const char* prefix : {"k", "M", "G", "T"}) {
    number /= 1000;
    if (number < 999.5) return fmt::format("{} {}", significant(number), prefix);
  }
  return fmt::format("{:.2e}", number * 1e12);
}

std::string bytes_or_none(std::int64_t bytes) {
  return bytes > 0 ? format_bytes(bytes) : "-";
}
std::string seconds_or_none(double seconds) {
  return seconds > 0 ? format_seconds(seconds) : "-";
}

/// One grid for layers and what is on its way between them: `>` forward, `<` backward.
class LayersTable {
 public:
  explicit LayersTable(const Explanation& e) : e_(e), grid_(headers(e)) {}

  std::string to_text() {
    const auto& applications = e_.model.applications();
    std::vector<std::string> input = row("input", "-", "-");
    for (const Axis axis : axes_) input.push_back(to_string(e_.plan.input[axis]));
    add(std::move(input), {"-", "-", "-", "-"});
    for (std::size_t i = 0; i <= applications.size(); ++i) {
      for (std::size_t s = 1; s < e_.stages.size(); ++s)
        if (e_.stages[s].layers.begin == static_cast<std::int64_t>(i)) add_cut(s);
      for (const PlannedRedistribution& redistribution : e_.report.redistributions)
        if (redistribution.reader == i) add_redistribution(redistribution);
      if (i < applications.size()) add_layer(i);
    }
    std::vector<std::string> head = row("head", "head", "-");
    for (const Axis axis : axes_) head.emplace_back(e_.class_axes.contains(axis) ? "column S(1)" : "data S(0)");
    add_costs(std::move(head), e_.head);
    return grid_.to_text();
  }

 private:
  static constexpr std::size_t type_width = 16;
  static constexpr std::size_t name_width = 28;  // of the values that cross a cut

  static std::vector<Axis> axes_of(const Mesh& mesh) {
    std::vector<Axis> axes;
    mesh.larger_than_one({Axis::dp, Axis::tp}).for_each([&](Axis axis) { axes.push_back(axis); });
    return axes;
  }
  static std::vector<std::string> headers(const Explanation& e) {
    std::vector<std::string> headers{"layer", "type"};
    if (e.stages.size() > 1) headers.emplace_back("stage");
    for (const Axis axis : axes_of(e.options.mesh)) headers.emplace_back(name_of(axis));
    headers.insert(headers.end(), {"weights", "FLOP", "sent", "messages"});
    return headers;
  }

  std::vector<std::string> row(std::string name, std::string type, std::string stage) const {
    std::vector<std::string> cells{std::move(name), std::move(type)};
    if (e_.stages.size() > 1) cells.push_back(std::move(stage));
    return cells;
  }
  void add(std::vector<std::string> row, const std::vector<std::string>& figures) {
    row.insert(row.end(), figures.begin(), figures.end());
    grid_.add(std::move(row));
  }
  void add_costs(std::vector<std::string> row, const LayerCosts& costs) {
    PlanTotals totals;
    totals.add(costs);
    const PlanTotals::Traffic traffic = totals.communication();
    add(std::move(row),
        {costs.parameters > 0 ? fmt::format("{}", costs.parameters) : "-", costs.flops > 0 ? count(costs.flops) : "-",
         bytes_or_none(traffic.bytes), seconds_or_none(traffic.seconds)});
  }
  void add_layer(std::size_t index) {
    const ModelDescription::Application& application = e_.model.applications()[index];
    std::vector<std::string> cells =
        row(application.name, shorten(application.layer->type(), type_width), fmt::format("{}", stage_of(e_, index)));
    for (const Axis axis : axes_) {
      const LayerOption& option = e_.plan.layers[index][axis];
      cells.push_back(fmt::format("{} {}", name_of(option.kind), to_string(option.output)));
    }
    add_costs(std::move(cells), e_.report.layers[index]);
  }
  /// What crosses the cut before a stage.
  void add_cut(std::size_t stage) {
    const PlannedCut& cut = e_.cuts[stage - 1];
    std::vector<std::string> names;
    for (const int value : cut.values) names.push_back(value_name(e_, value));
    const auto line = [&](const std::string& what, const PlanTotals::Traffic& traffic) {
      std::vector<std::string> cells = row(shorten(fmt::format(" {}", fmt::join(names, ", ")), name_width), what,
                                           fmt::format("{} -> {}", stage - 1, stage));
      cells.resize(cells.size() + axes_.size());
      add(std::move(cells), {"", "", bytes_or_none(traffic.bytes), seconds_or_none(traffic.seconds)});
    };
    line(cut.forward.bytes > 0 ? "> send" : "no message", cut.forward);
    if (cut.backward.bytes > 0) line("< send", cut.backward);
  }
  void add_redistribution(const PlannedRedistribution& redistribution) {
    const std::string name = value_name(e_, redistribution.value);
    for (const PlannedConversion& step : redistribution.steps) {
      const auto line = [&](const std::string& what, std::int64_t bytes, double seconds) {
        std::vector<std::string> cells = row(fmt::format(" {}", name), what, "");
        for (const Axis axis : axes_)
          cells.push_back(axis == step.step.axis
                              ? fmt::format("{} -> {}", to_string(step.step.from), to_string(step.step.to))
                              : "");
        add(std::move(cells), {"", "", bytes_or_none(bytes), seconds_or_none(seconds)});
      };
      if (step.forward)
        line(fmt::format("> {}", name_of(step.forward->operation)), step.forward->bytes, step.forward->seconds);
      if (step.backward)
        line(fmt::format("< {}", name_of(step.backward->operation)), step.backward->bytes, step.backward->seconds);
      if (!step.forward && !step.backward) line("no message", 0, 0);
    }
  }

  const Explanation& e_;
  std::vector<Axis> axes_ = axes_of(e_.options.mesh);
  Grid grid_;
};

std::string totals_table(const Explanation& e) {
  const PlanTotals& totals = e.totals;
  const bool has_stages = e.stages.size() > 1;
  Grid grid({has_stages ? "all stages, a step" : "a rank, a step", "sent", "time"});
  const auto add = [&](std::string_view name, const PlanTotals::Traffic& traffic) {
    grid.add({std::string(name), bytes_or_none(traffic.bytes), seconds_or_none(traffic.seconds)});
  };
  for (std::size_t cargo = 0; cargo < cargo_names.size(); ++cargo) add(cargo_names[cargo], totals.traffic[cargo]);
  const PlanTotals::Traffic all = totals.communication();
  PlanTotals::Traffic between;
  for (const PlannedCut& cut : e.cuts)
    for (const PlanTotals::Traffic& traffic : {cut.forward, cut.backward}) {
      between.bytes += traffic.bytes;
      between.seconds += traffic.seconds;
    }
  if (has_stages) add("between stages", between);
  add("communication", {all.bytes + between.bytes, all.seconds + between.seconds});
  grid.add({"computing", "-", format_seconds(totals.computing_seconds)});
  return grid.to_text();
}

std::string stages_table(const Explanation& e) {
  Grid grid({"stage", "pp", "begins with", "layers", "weights", "time a step", "memory a rank"});
  for (std::size_t s = 0; s < e.stages.size(); ++s) {
    const PlannedStage& stage = e.stages[s];
    grid.add({fmt::format("{}", s), fmt::format("{}", stage.rank),
              e.model.applications()[static_cast<std::size_t>(stage.layers.begin)].name,
              fmt::format("{}", stage.layers.size), fmt::format("{}", stage.parameters), seconds_or_none(stage.seconds),
              format_bytes(stage.bytes)});
  }
  return grid.to_text();
}

std::string choices_table(const Explanation& e) {
  Grid grid({"placement", "sent", "messages", "computing", "together", "memory", "fits"});
  for (const Explanation::Choice& choice : e.choices) {
    const PlanTotals::Traffic traffic = choice.totals.communication();
    const bool fits = e.memory_budget == 0 || choice.totals.bytes() <= e.memory_budget;
    grid.add({choice.name, bytes_or_none(traffic.bytes), seconds_or_none(traffic.seconds),
              format_seconds(choice.totals.computing_seconds),
              format_seconds(traffic.seconds + choice.totals.computing_seconds), format_bytes(choice.totals.bytes()),
              fits ? "yes" : "no"});
  }
  return grid.to_text();
}

}  // namespace

std::string explanation_text(const Explanation& e) {
  std::string text = fmt::format("{}: {}, {} sample{} in each of {} micro-batch{}\n", e.name, to_string(e.options.mesh),
                                 e.options.samples, e.options.samples == 1 ? "" : "s", e.options.micro_batches,
                                 e.options.micro_batches == 1 ? "" : "es");
  const bool has_stages = e.stages.size() > 1;
  text.append(LayersTable(e).to_text()).append("\n").append(totals_table(e));
  if (has_stages)
    text.append("\n").append(stages_table(e));
  else
    text += fmt::format("memory a rank: {} of parameters, gradients and optimizer, {} of activations\n",
                        format_bytes(e.totals.parameter_bytes), format_bytes(e.totals.activation_bytes));
  if (!e.choices.empty()) text.append("\n").append(choices_table(e));
  return text;
}

}  // namespace heddle
