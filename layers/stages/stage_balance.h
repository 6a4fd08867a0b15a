// From wishes to cuts: how many weighted layers each stage has, which stage each layer names, or the most even load.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/description/enum_table.h"
#include "layers/planner/plan_costs.h"
#include "layers/stages/stage_cut.h"

namespace heddle {

/// The applications on the main path that have weights to multiply by (convolutions and linear layers), ascending. The
/// main path is what one meets by following the first inputs back from the last value: shortcuts are not on it.
std::vector<int> weighted_layers(const ModelDescription& model);

/// Stages of so many weighted layers each, at least one. What has no weights stays with the weighted layer before it,
/// and so does a shortcut with its block. InputError unless the numbers, one for each stage, sum up.
StageCut cut_by_counts(const ModelDescription& model, std::span<const std::int64_t> counts, int stages);

/// Stages as the applications name them; one that names none lies with the one before it. InputError names the first
/// layer that goes back or passes over a stage.
StageCut cut_as_named(const ModelDescription& model, int stages);

/// What applications load the stage with that they fall to.
struct StageLoads {
  std::vector<double> each{};
  /// Of each micro-batch in flight, of which a stage has `in_flight` at most; empty: nothing, or one each.
  std::vector<double> held{};
  std::vector<double> in_flight{};
  /// By how much longer than elsewhere a stage takes for `each`, because its rank is slower; empty: 1 each.
  std::vector<double> slowness{};

  double of_stage(int stage, const ShardRange& applications) const;
};

/// The cut whose most loaded stage has the least load; of those, one with the least sum of squares, so that the other
/// stages are even, too, and what loads nothing stays with the layer before it. Exact, by dynamic programming over all
/// contiguous cuts. Every stage has a layer: InputError if there are too few.
StageCut most_even_cut(const StageLoads& loads, int stages);

/// What the cut of a model shares out evenly.
enum class BalanceBy { time, parameters, memory };
template <>
inline constexpr auto enum_names<BalanceBy> = enum_table<BalanceBy>({
    {BalanceBy::time, "time"},
    {BalanceBy::parameters, "parameters"},
    {BalanceBy::memory, "memory"},
});
/// Of a plan: its estimated seconds a step, sums of gradients left out; elements that a rank keeps; or bytes, those of
/// values that backward needs being `held`.
StageLoads loads_of(const ModelDescription& model, const PlacementPlan& plan, const PlannerOptions& options,
                    BalanceBy by);

}  // namespace heddle
