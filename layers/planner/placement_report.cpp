#include "layers/planner/placement_report.h"

#include <algorithm>
#include <set>

namespace heddle {

void PlacementTotals::add(const CollectiveCost& collective) {
  Traffic& sum = traffic[static_cast<std::size_t>(collective.payload)];
  sum.bytes += collective.bytes;
  sum.seconds += collective.seconds;
}

void PlacementTotals::add(const LayerCosts& layer) {
  for (const CollectiveCost& collective : layer.collectives) add(collective);
  computing_seconds += layer.seconds;
  parameter_bytes += layer.bytes;
}

PlacementTotals::Traffic PlacementTotals::communication() const {
  Traffic sum;
  for (const Traffic& each : traffic) {
    sum.bytes += each.bytes;
    sum.seconds += each.seconds;
  }
  return sum;
}

PlacementReport placement_report(const ModelSpec& model, const ModelPlacement& placement,
                                 const PlannerOptions& options) {
  PlacementCosts costs(model, options);
  PlacementReport report;
  report.totals.computing_seconds = costs.loading_seconds(placement.input);
  std::set<std::pair<int, int>> seen;  // values and placements
  const auto read = [&](int value, std::size_t reader, const Placements& where) {
    if (!seen.emplace(value, code_of(where)).second) return;
    report.totals.activation_bytes += costs.kept_bytes(value, where);
    const Placements made = placement.made(value);
    const std::vector<RedistributionStepCost>& steps = costs.redistribution(value, made, where);
    if (steps.empty()) return;
    report.redistributions.push_back({value, reader, made, where, steps});
    for (const RedistributionStepCost& step : steps) {
      if (step.forward) report.totals.add(*step.forward);
      if (step.backward) report.totals.add(*step.backward);
    }
  };
  const auto& applications = model.applications();
  for (std::size_t i = 0; i < applications.size(); ++i) {
    const LayerLayout layout = placement.layout(model, i, {});
    for (std::size_t input = 0; input < applications[i].inputs.size(); ++input)
      read(applications[i].inputs[input], i, layout.input(input));
    report.totals.add(report.layers.emplace_back(costs.layer(i, placement.layers[i])));
  }
  read(model.last_value(), applications.size(), placement.output);
  return report;
}

}  // namespace heddle
