// The report of a placed model: what each layer and each redistribution costs a rank in a step, and the totals.
#pragma once

#include "layers/planner/placement_costs.h"

namespace heddle {

/// The redistribution of a value to the placement that a layer wants, once for all readers that want it.
struct RedistributionCost {
  int value = 0;
  /// The first application that wants it, or the number of applications if it is wanted after the model.
  std::size_t reader = 0;
  Placements from{};
  Placements to{};
  std::vector<RedistributionStepCost> steps{};
};

struct PlacementTotals {
  struct Traffic {
    std::int64_t bytes = 0;
    double seconds = 0;
  };
  PerPayload<Traffic> traffic{};
  double computing_seconds = 0;
  std::int64_t parameter_bytes = 0;   // with gradients and the optimizer's state
  std::int64_t activation_bytes = 0;  // kept for the backward pass of one micro-batch

  void add(const CollectiveCost& collective);
  void add(const LayerCosts& layer);
  Traffic communication() const;
  std::int64_t bytes() const { return parameter_bytes + activation_bytes; }
};

struct PlacementReport {
  std::vector<LayerCosts> layers{};                   // of each application
  std::vector<RedistributionCost> redistributions{};  // in the order of their readers
  PlacementTotals totals{};
};

/// The planner's costs of each application and redistribution of a placed model.
PlacementReport placement_report(const ModelSpec& model, const ModelPlacement& placement,
                                 const PlannerOptions& options);

}  // namespace heddle
