// The report of a plan: what each layer and each redistribution costs a rank in a step, and the totals.
#pragma once

#include "layers/planner/plan_costs.h"

namespace heddle {

/// The redistribution of a value to the placement that a layer wants, once for all readers that want it.
struct PlannedRedistribution {
  int value = 0;
  /// The first application that wants it, or the number of applications if it is wanted after the model.
  std::size_t reader = 0;
  Placements from{};
  Placements to{};
  std::vector<PlannedConversion> steps{};
};

struct PlanTotals {
  struct Traffic {
    std::int64_t bytes = 0;
    double seconds = 0;
  };
  PerCargo<Traffic> traffic{};
  double computing_seconds = 0;
  std::int64_t parameter_bytes = 0;   // with gradients and the optimizer's state
  std::int64_t activation_bytes = 0;  // kept for the backward pass of one micro-batch

  void add(const PlannedCollective& collective);
  void add(const LayerCosts& layer);
  Traffic communication() const;
  std::int64_t bytes() const { return parameter_bytes + activation_bytes; }
};

struct PlanReport {
  std::vector<LayerCosts> layers{};                      // of each application
  std::vector<PlannedRedistribution> redistributions{};  // in the order of their readers
  PlanTotals totals{};
};

PlanReport report(const ModelDescription& model, const PlacementPlan& plan, const PlannerOptions& options);

}  // namespace heddle
