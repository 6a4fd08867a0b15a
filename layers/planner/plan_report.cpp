#include "layers/planner/plan_report.h"

#include <algorithm>
#include <set>

namespace heddle {

void PlanTotals::add(const PlannedCollective& collective) {
  Traffic& sum = traffic[static_cast<std::size_t>(collective.cargo)];
  sum.bytes += collective.bytes;
  sum.seconds += collective.seconds;
}

void PlanTotals::add(const LayerCosts& layer) {
  for (const PlannedCollective& collective : layer.collectives) add(collective);
  computing_seconds += layer.seconds;
  parameter_bytes += layer.bytes;
}

PlanTotals::Traffic PlanTotals::communication() const {
  Traffic sum;
  for (const Traffic& each : traffic) {
    sum.bytes += each.bytes;
    sum.seconds += each.seconds;
  }
  return sum;
}

PlanReport report(const ModelDescription& model, const PlacementPlan& plan, const PlannerOptions& options) {
  PlanCosts costs(model, options);
  PlanReport report;
  report.totals.computing_seconds = costs.loading_seconds(plan.input);
  std::set<std::pair<int, int>> seen;  // values and placements
  const auto read = [&](int value, std::size_t reader, const Placements& where) {
    if (!seen.emplace(value, code_of(where)).second) return;
    report.totals.activation_bytes += costs.kept_bytes(value, where);
    const Placements made = plan.made(value);
    const std::vector<PlannedConversion>& steps = costs.conversion(value, made, where);
    if (steps.empty()) return;
    report.redistributions.push_back({value, reader, made, where, steps});
    for (const PlannedConversion& step : steps) {
      if (step.forward) report.totals.add(*step.forward);
      if (step.backward) report.totals.add(*step.backward);
    }
  };
  const auto& applications = model.applications();
  for (std::size_t i = 0; i < applications.size(); ++i) {
    const LayerLayout layout = plan.layout(model, i, {});
    for (std::size_t input = 0; input < applications[i].inputs.size(); ++input)
      read(applications[i].inputs[input], i, layout.input(input));
    report.totals.add(report.layers.emplace_back(costs.layer(i, plan.layers[i])));
  }
  read(model.last_value(), applications.size(), plan.output);
  return report;
}

}  // namespace heddle
