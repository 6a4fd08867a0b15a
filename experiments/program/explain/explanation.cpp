#include "experiments/program/explain/explanation.h"

#include <algorithm>
#include <functional>

#include "experiments/training/planning/fastest_placements.h"
#include "experiments/training/planning/model_layout.h"
#include "experiments/training/planning/planned_head.h"
#include "experiments/training/planning/run_plan.h"
#include "framework/error.h"
#include "framework/tensors/memory.h"

namespace heddle {

namespace {

/// The kind that a layer gets if it can have it; otherwise it is `data`.
using Wanted = std::function<Parallel(const LayerSpec&)>;

PlacementTotals with_heads(PlacementTotals totals, const std::vector<ExplainedHead>& heads) {
  for (const ExplainedHead& head : heads) totals.add(head.costs);
  return totals;
}

std::vector<ExplainedHead> heads_of(const Experiment& experiment, const ModelSpec& model, const PlannerOptions& options,
                                    int last_rank) {
  std::vector<ExplainedHead> heads;
  for (LayerCosts& costs : planned_heads(experiment, model, options, last_rank)) {
    const std::size_t set = heads.size();
    const HeadConfig& head = experiment.head_of(set);
    heads.push_back({experiment.heads() == 1 ? "head" : "head " + experiment.data_of(set).name, std::move(costs),
                     head.class_axes(), head.split});
  }
  return heads;
}

/// The costs of the model if every layer that does not follow its neighbours is placed in this way.
PlacementTotals totals_of(ModelSpec model, const PlannerOptions& options, const Wanted& wanted) {
  const Axis axis = options.mesh.default_axis();
  const AxisUse use{axis, options.mesh.size(axis)};
  model.clear_requests();
  for (std::size_t i = 0; i < model.applications().size(); ++i) {
    const ModelSpec::Application& application = model.applications()[i];
    if (application.layer->follows()) continue;
    const std::vector<Shape> inputs = model.input_shapes(application, options.samples);
    for (const Parallel kind : {wanted(*application.layer), Parallel::group}) {
      if (!std::holds_alternative<LayerOption>(application.layer->option(kind, use, inputs))) continue;
      model.place(application.name, {kind, use.axis});
      break;
    }
  }
  return placement_report(model, place(model, options), options).totals;
}

std::vector<Explanation::Choice> plain_choices(const ModelSpec& model, PlannerOptions options,
                                               const std::vector<ExplainedHead>& heads) {
  options.memory_budget.reset();
  std::vector<Explanation::Choice> choices;
  const auto add = [&](const char* name, const PlacementTotals& totals) {
    choices.push_back({name, with_heads(totals, heads)});
  };
  add("as written", placement_report(model, place(model, options), options).totals);
  add("data", totals_of(model, options, [](const LayerSpec&) { return Parallel::data; }));
  // Megatron's pairs: the next layer takes what this one has split.
  bool is_column = false;
  add("column and row", totals_of(model, options, [&](const LayerSpec&) {
        is_column = !is_column;
        return is_column ? Parallel::column : Parallel::row;
      }));
  add("parameter", totals_of(model, options, [](const LayerSpec&) { return Parallel::parameter; }));
  return choices;
}

std::vector<ExplainedStage> explained_stages(const Experiment& experiment, const ModelSpec& model,
                                             const ModelPlacement& placement, const Schedule& schedule,
                                             const StageCut& cut) {
  const auto loads = [&](BalanceBy by) { return stage_loads(model, experiment, placement, schedule, by); };
  const StageLoads parameters = loads(BalanceBy::parameters);
  const StageLoads seconds = loads(BalanceBy::time);
  const StageLoads bytes = loads(BalanceBy::memory);
  std::vector<ExplainedStage> stages;
  for (int s = 0; s < cut.stages(); ++s) {
    const IndexRange layers = cut.stage(s);
    const auto second = [&] { return schedule.second_rank_of[static_cast<std::size_t>(s)]; };
    stages.push_back({.rank = schedule.rank_of[static_cast<std::size_t>(s)],
                      .second_rank = schedule.copies() > 1 ? std::optional(second()) : std::nullopt,
                      .layers = layers,
                      .parameters = static_cast<std::int64_t>(parameters.of_stage(s, layers)),
                      .seconds = seconds.of_stage(s, layers),
                      .bytes = static_cast<std::int64_t>(bytes.of_stage(s, layers))});
  }
  return stages;
}

/// The time of the slowest pair of ranks that are neighbours along pp.
double slowest_message(const PlannerOptions& options, int from, int to, std::int64_t bytes) {
  double slowest = 0;
  for (int dp = 0; dp < options.mesh.size(Axis::dp); ++dp)
    for (int tp = 0; tp < options.mesh.size(Axis::tp); ++tp)
      slowest = std::max(slowest, message_seconds(options.links, options.mesh.rank({dp, from, tp}),
                                                  options.mesh.rank({dp, to, tp}), bytes));
  return slowest;
}

std::vector<ExplainedCut> explained_cuts(const ModelSpec& model, const ModelPlacement& placement,
                                         const PlannerOptions& options, const std::vector<ExplainedStage>& stages) {
  const ValueForms forms(model, placement);
  std::vector<ExplainedCut> cuts;
  for (std::size_t s = 1; s < stages.size(); ++s) {
    const int position = static_cast<int>(stages[s].layers.begin);
    ExplainedCut& cut = cuts.emplace_back();
    for (const std::size_t form : forms.crossing(position)) cut.values.push_back(forms.all()[form].value);
    const int from = stages[s - 1].rank;
    const int to = stages[s].rank;
    if (from == to) continue;
    const auto traffic = [&](int sender, int receiver, std::int64_t bytes) {
      if (bytes == 0) return PlacementTotals::Traffic{};
      return PlacementTotals::Traffic{bytes * options.micro_batches, slowest_message(options, sender, receiver, bytes) *
                                                                         static_cast<double>(options.micro_batches)};
    };
    const CrossingBytes bytes =
        crossing_bytes(model, placement, forms, position, options.samples, options.precision.activations);
    cut.forward = traffic(from, to, bytes.forward);
    cut.backward = traffic(to, from, bytes.backward);
  }
  return cuts;
}

}  // namespace

int stage_of(const Explanation& explanation, std::size_t application) {
  int stage = 0;
  while (explanation.stages[static_cast<std::size_t>(stage)].layers.end() <= static_cast<std::int64_t>(application))
    ++stage;
  return stage;
}

std::string value_name(const Explanation& explanation, int value) {
  return value == 0 ? "input" : explanation.model.applications()[static_cast<std::size_t>(value) - 1].name;
}

Explanation explain(const Experiment& experiment, const std::string& name, bool automatic) {
  ModelSpec model = model_of(experiment, image_shape(experiment.data));
  const PlannerOptions options = planner_options(experiment, model, mesh_of(experiment));
  Experiment placed = experiment;
  if (automatic) placed.model.placements = fastest_placements(experiment);
  ModelPlacement placement = placement_of(model_of(placed, image_shape(experiment.data)), experiment, options.mesh);
  PlacementReport planned = placement_report(model, placement, options);
  const Schedule schedule = schedule_of(experiment);
  std::vector<ExplainedHead> heads = heads_of(experiment, model, options, schedule.rank_of.back());
  const PlacementTotals totals = with_heads(planned.totals, heads);
  std::vector<ExplainedStage> stages =
      explained_stages(experiment, model, placement, schedule, cut_of(model, experiment, placement, schedule));
  std::vector<ExplainedCut> cuts = explained_cuts(model, placement, options, stages);
  std::vector<Explanation::Choice> choices;
  if (automatic) {
    choices = plain_choices(model, options, heads);
    choices.push_back({"auto", totals});
  }
  return {name,
          automatic,
          experiment.min_budget(options.mesh.size()),
          options,
          std::move(model),
          std::move(placement),
          std::move(planned),
          std::move(heads),
          std::move(stages),
          std::move(cuts),
          totals,
          std::move(choices)};
}

}  // namespace heddle
