// A plan read aloud: what each layer and each redistribution costs a rank in a step, and the sums.
#pragma once

#include "layers/planner/plan_costs.h"

namespace heddle {

/// A value's way to where a layer wants it, once for all readers that want it so.
struct PlannedRedistribution {
  int value = 0;
  /// The first application that wants it; their number for what comes after the model.
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
  std::int64_t parameter_bytes = 0;   // with gradients and the optimizer's states
  std::int64_t activation_bytes = 0;  // that backward needs of one micro-batch

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
