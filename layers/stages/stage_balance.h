// Cuts a model into stages: by the number of weighted layers in each stage, by the stage that each layer names, or for
// the most even load.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/description/enum_table.h"
#include "layers/planner/placement_costs.h"
#include "layers/stages/stage_cut.h"

namespace heddle {

/// The convolutions and linear layers on the main path, ascending. The main path is the path from the input to the last
/// value that has the most of them; shortcuts are not on it.
std::vector<int> weighted_layers(const ModelSpec& model);

/// Cuts into stages with these numbers of weighted layers, each at least one. Between two weighted layers the cut lies
/// where the fewest values cross it, as late as possible: before a shortcut's projection or the norm of a transformer's
/// branch, and after pooling. InputError unless there is one number per stage and the numbers add up to all weighted
/// layers.
StageCut cut_by_counts(const ModelSpec& model, std::span<const std::int64_t> counts, int stages);

/// Cuts into stages as the applications name them; an application that names none is in the stage of the one before it.
/// InputError names the first layer that returns to an earlier stage or skips one.
StageCut cut_as_named(const ModelSpec& model, int stages);

/// The load that each application adds to its stage.
struct StageLoads {
  std::vector<double> each{};
  /// The load for each micro-batch in flight, of which a stage has `in_flight` at most. If empty: no such load, and one
  /// micro-batch per stage.
  std::vector<double> held{};
  std::vector<double> in_flight{};
  /// The factor by which a stage's load weighs more because its rank is slower or has less memory; if empty, 1 for all.
  std::vector<double> weights{};

  double of_stage(int stage, const IndexRange& applications) const;
  /// If all stages were one, with as many micro-batches in flight as any.
  double sum() const;
};

/// The cut whose most loaded stage has the least load, and of such cuts one with the least sum of squares, so that the
/// other stages are even, too, and layers without load stay with the layer before them. The result is exact, by dynamic
/// programming over all contiguous cuts. Every stage has at least one layer; InputError if there are too few.
StageCut balanced_cut(const StageLoads& loads, int stages);

/// What is divided evenly among the stages.
enum class BalanceBy { time, parameters, memory };
template <>
inline constexpr auto enum_names<BalanceBy> = enum_table<BalanceBy>({
    {BalanceBy::time, "time"},
    {BalanceBy::parameters, "parameters"},
    {BalanceBy::memory, "memory"},
});
/// The loads of a placed model: the estimated seconds per step without sums of gradients; or the elements of parameters
/// that a rank keeps; or the bytes, where values that the backward pass needs count as `held`.
StageLoads loads_of(const ModelSpec& model, const ModelPlacement& placement, const PlannerOptions& options,
                    BalanceBy by);

}  // namespace heddle
