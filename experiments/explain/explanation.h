// What `heddle explain` says of one variant: where each layer lies on the mesh, what moves between the ranks, and what
// a step and a rank need in all. From shapes, the link model and the device's profile; nothing is run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiments/experiment.h"
#include "layers/plan_report.h"

namespace heddle {

struct Explanation {
  /// A placement beside the one explained.
  struct Choice {
    std::string name;
    PlanTotals totals;
  };

  std::string name;
  bool is_automatic = false;
  std::int64_t memory_budget = 0;  // 0: none
  PlannerOptions options;
  ModelDescription model;
  PlacementPlan plan;
  PlanReport report;
  LayerCosts head;
  PlanTotals totals;            // of model and head
  std::vector<Choice> choices;  // automatic only: the plain ones, and this one last
};

/// With `automatic` every layer goes where model and memory budget make the step shortest, whatever the file says.
/// InputError if no placement fits into the budget.
Explanation explain(const Experiment& experiment, const std::string& name, bool automatic);

/// For people: fits 100 columns.
std::string explanation_text(const Explanation& explanation);
/// {"name", "variants": [..]} with stable keys; bytes, seconds and operations are those of a rank and a step.
std::string explanations_json(const std::string& study, std::span<const Explanation> explanations);

}  // namespace heddle
