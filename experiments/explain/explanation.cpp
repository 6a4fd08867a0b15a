#include "experiments/explain/explanation.h"

#include <functional>

#include "experiments/placement.h"
#include "framework/error.h"
#include "framework/memory.h"

namespace heddle {

namespace {

/// What a layer should be if it can; data else.
using Wanted = std::function<Parallel(const LayerDescription&)>;

PlanTotals with_head(PlanTotals totals, const LayerCosts& head) {
  totals.add(head);
  return totals;
}

/// Of the model with every layer that does not follow its neighbours placed alike.
PlanTotals totals_of(ModelDescription model, const PlannerOptions& options, const Wanted& wanted) {
  const AxisUse use = options.mesh.size(Axis::tp) > 1 ? AxisUse{Axis::tp, options.mesh.size(Axis::tp)}
                                                      : AxisUse{Axis::dp, options.mesh.size(Axis::dp)};
  model.forget_wishes();
  for (std::size_t i = 0; i < model.applications().size(); ++i) {
    const ModelDescription::Application& application = model.applications()[i];
    if (application.layer->follows()) continue;
    const std::vector<Shape> inputs = model.input_shapes(application, options.samples);
    for (const Parallel kind : {wanted(*application.layer), Parallel::group}) {
      if (!std::holds_alternative<LayerOption>(application.layer->option(kind, use, inputs))) continue;
      model.place(application.name, {kind, use.axis});
      break;
    }
  }
  return report(model, place(model, options), options).totals;
}

std::vector<Explanation::Choice> plain_choices(const ModelDescription& model, PlannerOptions options,
                                               const LayerCosts& head) {
  options.automatic = false;
  options.memory_budget.reset();
  std::vector<Explanation::Choice> choices;
  const auto add = [&](const char* name, const PlanTotals& totals) {
    choices.push_back({name, with_head(totals, head)});
  };
  add("as written", report(model, place(model, options), options).totals);
  add("data", totals_of(model, options, [](const LayerDescription&) { return Parallel::data; }));
  // Megatron's pairs: what one layer cuts, the next one takes cut.
  bool is_column = false;
  add("column and row", totals_of(model, options, [&](const LayerDescription&) {
        is_column = !is_column;
        return is_column ? Parallel::column : Parallel::row;
      }));
  add("parameter", totals_of(model, options, [](const LayerDescription&) { return Parallel::parameter; }));
  return choices;
}

PlacementPlan cheapest_plan(const ModelDescription& model, const PlannerOptions& options, std::int64_t budget) {
  try {
    return place(model, options);
  } catch (const InputError& error) {
    if (!options.memory_budget) throw;
    fail<InputError>("{} (the head takes {} of the {} of memory_budget)", error.what(),
                     format_bytes(budget - *options.memory_budget), format_bytes(budget));
  }
}

}  // namespace

Explanation explain(const Experiment& experiment, const std::string& name, bool automatic) {
  ModelDescription model = make_model(experiment.model, image_shape(experiment.data));
  PlannerOptions options = planner_options(experiment, model, mesh_of(experiment));
  options.automatic = automatic;
  PlacementPlan plan =
      automatic ? cheapest_plan(model, options, experiment.memory_budget) : plan_of(model, experiment, options.mesh);
  PlanReport planned = report(model, plan, options);
  LayerCosts head = head_costs(experiment, model, options);
  const PlanTotals totals = with_head(planned.totals, head);
  std::vector<Explanation::Choice> choices;
  if (automatic) {
    choices = plain_choices(model, options, head);
    choices.push_back({"auto", totals});
  }
  return {name,
          automatic,
          experiment.memory_budget,
          options,
          std::move(model),
          std::move(plan),
          std::move(planned),
          std::move(head),
          totals,
          std::move(choices)};
}

}  // namespace heddle
