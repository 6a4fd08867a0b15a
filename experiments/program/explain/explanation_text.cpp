#include <fmt/ranges.h>

#include "experiments/program/explain/explanation.h"
#include "experiments/results/grid.h"
#include "experiments/results/table.h"
#include "experiments/results/units.h"
#include "framework/description/describe.h"
#include "framework/description/text.h"
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
  return bytes > 0 ? format_bytes(bytes) : absent;
}
std::string seconds_or_none(double seconds) {
  return seconds > 0 ? format_seconds(seconds) : absent;
}

/// One grid for layers and the communication between them: `>` forward, `<` backward.
class LayersTable {
 public:
  explicit LayersTable(const Explanation& e) : e_(e), grid_(headers(e)) {}

  std::string to_text() {
    const auto& applications = e_.model.applications();
    add({"input", absent}, placement([&](Axis axis) { return to_string(e_.placement.input[axis]); }),
        {absent, absent, absent, absent});
    for (std::size_t i = 0; i <= applications.size(); ++i) {
      for (std::size_t s = 1; s < e_.stages.size(); ++s)
        if (e_.stages[s].layers.begin == static_cast<std::int64_t>(i)) add_cut(s);
      for (const RedistributionCost& redistribution : e_.report.redistributions)
        if (redistribution.reader == i) add_redistribution(redistribution);
      if (i < applications.size()) add_layer(i);
    }
    for (const ExplainedHead& head : e_.heads)
      add_costs({head.name, "head"}, placement([&](Axis axis) {
                  return std::string(head.class_axes.contains(axis) ? "column S(1)" : "data S(0)");
                }),
                head.costs);
    return grid_.to_text();
  }

 private:
  static constexpr std::size_t type_width = 16;
  static constexpr std::size_t name_width = 28;  // the width of the names of values that cross a cut

  static std::vector<Axis> axes_of(const Mesh& mesh) {
    std::vector<Axis> axes;
    mesh.larger_than_one({Axis::dp, Axis::tp}).for_each([&](Axis axis) { axes.push_back(axis); });
    return axes;
  }
  /// One column for the placements along all axes: `placement (dp, tp)`.
  static std::vector<std::string> headers(const Explanation& e) {
    std::vector<std::string> headers{"layer", "type"};
    std::vector<std::string_view> names;
    for (const Axis axis : axes_of(e.options.mesh)) names.push_back(name_of(axis));
    if (!names.empty()) headers.push_back(fmt::format("placement ({})", fmt::join(names, ", ")));
    headers.insert(headers.end(), {"parameters", "FLOPs", "bytes sent", "comm time"});
    return headers;
  }

  template <class TextOf>
  std::string placement(const TextOf& text_of) const {
    std::vector<std::string> texts;
    for (const Axis axis : axes_) texts.push_back(text_of(axis));
    return fmt::format("{}", fmt::join(texts, ", "));
  }
  void add(std::vector<std::string> row, std::string placement, const std::vector<std::string>& figures) {
    if (!axes_.empty()) row.push_back(std::move(placement));
    row.insert(row.end(), figures.begin(), figures.end());
    grid_.add(std::move(row));
  }
  void add_costs(std::vector<std::string> row, std::string placement, const LayerCosts& costs) {
    PlacementTotals totals;
    totals.add(costs);
    const PlacementTotals::Traffic traffic = totals.communication();
    add(std::move(row), std::move(placement),
        {costs.parameters > 0 ? fmt::format("{}", costs.parameters) : absent,
         costs.flops > 0 ? count(costs.flops) : absent, bytes_or_none(traffic.bytes),
         seconds_or_none(traffic.seconds)});
  }
  void add_layer(std::size_t index) {
    const ModelSpec::Application& application = e_.model.applications()[index];
    std::string placed = placement([&](Axis axis) {
      const LayerOption& option = e_.placement.layers[index][axis];
      return fmt::format("{} {}", name_of(option.kind), to_string(option.output));
    });
    add_costs({application.name, shorten(application.layer->type(), type_width)}, std::move(placed),
              e_.report.layers[index]);
  }
  /// What crosses the cut before a stage: `> send 0 -> 1`.
  void add_cut(std::size_t stage) {
    const ExplainedCut& cut = e_.cuts[stage - 1];
    std::vector<std::string> names;
    for (const int value : cut.values) names.push_back(value_name(e_, value));
    const auto line = [&](const std::string& what, std::size_t from, std::size_t to,
                          const PlacementTotals::Traffic& traffic) {
      add({shorten(fmt::format(" {}", fmt::join(names, ", ")), name_width), fmt::format("{} {} -> {}", what, from, to)},
          "", {"", "", bytes_or_none(traffic.bytes), seconds_or_none(traffic.seconds)});
    };
    line(cut.forward.bytes > 0 ? "> send" : "no message", stage - 1, stage, cut.forward);
    if (cut.backward.bytes > 0) line("< send", stage, stage - 1, cut.backward);
  }
  void add_redistribution(const RedistributionCost& redistribution) {
    const std::string name = value_name(e_, redistribution.value);
    for (const RedistributionStepCost& step : redistribution.steps) {
      const auto line = [&](const std::string& what, std::int64_t bytes, double seconds) {
        std::string change = fmt::format("{} -> {}", to_string(step.step.from), to_string(step.step.to));
        if (axes_.size() > 1) change = fmt::format("{} {}", name_of(step.step.axis), change);
        add({fmt::format(" {}", name), what}, std::move(change),
            {"", "", bytes_or_none(bytes), seconds_or_none(seconds)});
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
  const PlacementTotals& totals = e.totals;
  const bool has_stages = e.stages.size() > 1;
  Grid grid({!has_stages                             ? "one step, one rank"
             : e.options.mesh.size(Axis::copies) > 1 ? "one step, all stages of a copy"
                                                     : "one step, all stages",
             "bytes sent", "time"});
  const auto add = [&](std::string_view name, const PlacementTotals::Traffic& traffic) {
    grid.add({std::string(name), bytes_or_none(traffic.bytes), seconds_or_none(traffic.seconds)});
  };
  for (std::size_t payload = 0; payload < payload_names.size(); ++payload)
    add(payload_names[payload], totals.traffic[payload]);
  const PlacementTotals::Traffic all = totals.communication();
  PlacementTotals::Traffic between;
  for (const ExplainedCut& cut : e.cuts)
    for (const PlacementTotals::Traffic& traffic : {cut.forward, cut.backward}) {
      between.bytes += traffic.bytes;
      between.seconds += traffic.seconds;
    }
  if (has_stages) add("between stages", between);
  add("communication", {all.bytes + between.bytes, all.seconds + between.seconds});
  grid.add({"computing", absent, format_seconds(totals.computing_seconds)});
  return grid.to_text();
}

std::string stages_table(const Explanation& e) {
  std::vector<double> times;
  std::vector<double> memory;
  for (const ExplainedStage& stage : e.stages) {
    times.push_back(stage.seconds);
    memory.push_back(static_cast<double>(stage.bytes));
  }
  const Unit time = unit_of_seconds(times);
  const Unit held = unit_of_bytes(memory);
  Grid grid({"stage", "pp rank", "first layer", "layers", "parameters", heading("step time", time),
             heading("peak memory", held)});
  for (std::size_t s = 0; s < e.stages.size(); ++s) {
    const ExplainedStage& stage = e.stages[s];
    grid.add({fmt::format("{}", s),
              stage.second_rank ? fmt::format("{}, {}", stage.rank, *stage.second_rank) : fmt::format("{}", stage.rank),
              e.model.applications()[static_cast<std::size_t>(stage.layers.begin)].name,
              fmt::format("{}", stage.layers.size), fmt::format("{}", stage.parameters), in_unit(times[s], time),
              in_unit(memory[s], held)});
  }
  return grid.to_text();
}

std::string choices_table(const Explanation& e) {
  std::vector<double> bytes;
  std::vector<double> times;
  std::vector<double> memory;
  for (const Explanation::Choice& choice : e.choices) {
    const PlacementTotals::Traffic traffic = choice.totals.communication();
    bytes.push_back(static_cast<double>(traffic.bytes));
    times.push_back(traffic.seconds);
    times.push_back(choice.totals.computing_seconds);
    memory.push_back(static_cast<double>(choice.totals.bytes()));
  }
  const Unit sent = unit_of_bytes(bytes);
  const Unit time = unit_of_seconds(times);
  const Unit held = unit_of_bytes(memory);
  Grid grid({"placement", heading("bytes sent", sent), heading("comm time", time), heading("compute time", time),
             heading("step time", time), heading("kept memory", held), "fits"});
  for (std::size_t i = 0; i < e.choices.size(); ++i) {
    const Explanation::Choice& choice = e.choices[i];
    const double communicating = times[2 * i];
    const double computing = times[2 * i + 1];
    const bool fits = e.memory_budget == 0 || choice.totals.bytes() <= e.memory_budget;
    grid.add({choice.name, in_unit(bytes[i], sent), in_unit(communicating, time), in_unit(computing, time),
              in_unit(communicating + computing, time), in_unit(memory[i], held), fits ? "yes" : "no"});
  }
  return grid.to_text() +
         "kept memory: parameters, gradients, optimizer and activations, without logits and messages; heddle plan has "
         "the whole peak\n";
}

}  // namespace

std::string explanation_text(const Explanation& e) {
  const int copies = e.options.mesh.size(Axis::copies);
  const std::int64_t micro_batches = copies * e.options.micro_batches;
  std::string text =
      fmt::format("{}: {}, {} sample{} in each of {} micro-batch{}{}\n", e.name, to_string(e.options.mesh),
                  e.options.samples, e.options.samples == 1 ? "" : "s", micro_batches, micro_batches == 1 ? "" : "es",
                  copies == 1 ? "" : ", half of them in each of two copies of the stages");
  const bool has_stages = e.stages.size() > 1;
  text.append(LayersTable(e).to_text()).append("\n").append(totals_table(e));
  if (has_stages)
    text.append("\n").append(stages_table(e));
  else
    text += fmt::format("memory per rank: {} of parameters, gradients and optimizer, {} of activations\n",
                        format_bytes(e.totals.parameter_bytes), format_bytes(e.totals.activation_bytes));
  for (const ExplainedHead& head : e.heads)
    if (!head.split.empty())
      text += fmt::format("classes of the {}'s ranks: {}\n", head.name, fmt::join(head.split, ", "));
  if (!e.choices.empty()) text.append("\n").append(choices_table(e));
  return text;
}

}  // namespace heddle
