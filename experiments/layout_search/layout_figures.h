// What a layout costs: the time of a step, and the memory of the fullest rank.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/layout_search/layout_space.h"
#include "experiments/training/prediction/stage_profile.h"
#include "framework/tensors/memory.h"
#include "layers/planner/placement_costs.h"
#include "layers/stages/stage_balance.h"

namespace heddle {

struct LayoutFigures {
  double seconds = 0;
  std::int64_t bytes = 0;           // of the fullest rank
  int rank = 0;                     // which that is
  std::optional<MemoryUse> peak{};  // what it holds then; absent in an estimate
};

/// Plans layouts: the same two steps on plan, with the same figures, as `heddle plan` of the layout's experiment.
class LayoutPlanner {
 public:
  explicit LayoutPlanner(std::shared_ptr<const Dataset> dataset) : dataset_(std::move(dataset)) {}
  /// InputError if the experiment is not possible.
  LayoutFigures plan(const Experiment& experiment);
  /// A step of the experiment's smallest batch on one rank.
  LayoutFigures plan_serially(Experiment experiment);

 private:
  std::shared_ptr<const Dataset> dataset_;
  StageProfiles profiles_;
};

/// Estimates layouts without simulating their ranks one by one, so that thousands of ranks take milliseconds: the
/// planner's costs of the layers, the simulated schedule of one pipeline, and the sums of gradients after it.
class LayoutEstimator {
 public:
  /// `serial`: the figures of one sample's step on one rank, which show how much workspace the weights take.
  LayoutEstimator(const LayoutSpace& space, const LayoutFigures& serial);
  /// InputError if the layout is not possible.
  LayoutFigures estimate(const Layout& layout);

 private:
  /// The seconds of a layer, with the messages within its stage: for each micro-batch, and after the last one.
  struct PlacedLayer {
    double forward = 0;
    double backward_input = 0;
    double backward_weight = 0;
    double step_end = 0;
    double weight_bytes = 0;  // of the parameters that a rank keeps
  };
  struct PlacedModel {
    std::shared_ptr<const ModelSpec> model;
    std::shared_ptr<const ModelPlacement> placement;
    std::vector<PlacedLayer> layers;
  };

  const PlacedModel& placed(const Layout& layout, const Experiment& experiment);
  StageProfile profile_of(const Experiment& experiment, const RunPlan& plan, const PlacedModel& placed,
                          const StageLoads& loads) const;
  std::int64_t bytes_of(const Experiment& experiment, const RunPlan& plan, const PlacedModel& placed,
                        const StageLoads& loads) const;

  const LayoutSpace& space_;
  double workspace_ = 0;  // bytes for each byte of weights
  std::map<std::string, PlacedModel> placed_;
};

/// No step can be shorter: the floating-point operations of the model and its heads, once each, at the full speed of
/// all ranks, without messages, idle ranks or reads of memory.
double bound_seconds(const Experiment& experiment, int ranks);

}  // namespace heddle
