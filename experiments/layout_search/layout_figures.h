// What a layout costs: the time of a step, and the memory of the fullest rank.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/layout_search/layout_space.h"
#include "experiments/training/prediction/head_profile.h"
#include "experiments/training/prediction/layer_messages.h"
#include "experiments/training/prediction/stage_profile.h"
#include "framework/tensors/memory.h"
#include "layers/planner/placement_costs.h"
#include "layers/stages/stage_balance.h"

namespace heddle {

struct LayoutFigures {
  double seconds = 0;
  std::int64_t bytes = 0;           // the peak of the fullest rank
  double fullness = 0;              // RankBudgets::fullness of that rank
  int rank = 0;                     // the fullest rank
  std::optional<MemoryUse> peak{};  // what that rank holds at its peak; absent in an estimate
};

/// How full each rank is, where ranks may have different budgets.
class RankBudgets {
 public:
  RankBudgets(const Experiment& experiment, const Mesh& mesh);
  /// The bytes as a part of the rank's budget; 0 if it has none. If no rank has a budget: the bytes.
  double fullness(int rank, double bytes) const;
  /// The rank with the smallest budget of those with this coordinate along pp.
  int tightest(int pp) const { return tightest_[static_cast<std::size_t>(pp)]; }

 private:
  const Experiment& experiment_;
  bool has_any_;
  std::vector<int> tightest_;
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
  template <class T>
  using PerBalance = std::array<T, enumerator_count<BalanceBy>()>;

 public:
  /// `serial`: the figures of one sample's step on one rank, which show how much workspace the weights take.
  LayoutEstimator(const LayoutSpace& space, const LayoutFigures& serial);
  /// InputError if the layout is not possible.
  LayoutFigures estimate(const Layout& layout);

 private:
  /// The seconds that a layer computes for each micro-batch.
  struct PlacedLayer {
    double forward = 0;
    double backward_input = 0;   // 0 if no gradient flows to its inputs
    double backward_weight = 0;  // 0 if no weights are trained
    double gradient_sum = 0;     // of all micro-batches but the first: adds to the gradient of the weights
    double weight_bytes = 0;     // of the parameters that a rank keeps
  };
  struct PlacedModel {
    std::shared_ptr<const ModelSpec> model;
    std::shared_ptr<const ModelPlacement> placement;
    std::shared_ptr<const ValueForms> forms;
    std::vector<PlacedLayer> layers;
    std::vector<LayerMessages> messages;
    PerBalance<StageLoads> loads{};  // what loads_of gives
  };

  const PlacedModel& placed(const Layout& layout, const Experiment& experiment);
  /// `schedule`: the experiment's, or one of fewer micro-batches of the same size.
  LayoutFigures figures_of(const Experiment& experiment, const PlacedModel& placed, Schedule schedule);
  StageProfile profile_of(const Experiment& experiment, const RunPlan& plan, const PlacedModel& placed,
                          const StageLoads& loads);
  /// The fullest rank of a pipeline, and the bytes that it holds. `kept`: what it keeps for the backward at
  /// most.
  LayoutFigures memory_of(const Experiment& experiment, const RunPlan& plan, const PlacedModel& placed,
                          const StageLoads& loads, std::span<const double> kept) const;

  const LayoutSpace& space_;
  double workspace_ = 0;  // bytes for each byte of weights
  HeadProfiles heads_;
  std::map<std::string, PlacedModel> placed_;
};

/// No step can be shorter: the floating-point operations of the model and its heads, once each, at the full speed of
/// all ranks, times 1 - jitter, without messages, idle ranks or reads of memory.
double min_step_seconds(const Experiment& experiment, int ranks);

}  // namespace heddle
