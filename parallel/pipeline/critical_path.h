// Why a simulated schedule takes as long as it does: the chain of actions and messages that determines its makespan,
// and what each cost would have to be to shorten it.
#pragma once

#include <array>
#include <vector>

#include "framework/description/enum_table.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {

/// The costs of `SimulationCosts` that take time in a step. A B is its two parts.
enum class CostKind { forward, backward_input, backward_weight, recompute, transfer };
/// As `heddle schedule --costs` calls them, plus R.
template <>
inline constexpr auto enum_names<CostKind> = enum_table<CostKind>({
    {CostKind::forward, "F"},
    {CostKind::backward_input, "I"},
    {CostKind::backward_weight, "W"},
    {CostKind::recompute, "R"},
    {CostKind::transfer, "c"},
});

/// A time for each kind of cost.
using TimeByCost = std::array<double, enumerator_count<CostKind>()>;

/// An action of a critical path.
struct CriticalStep {
  int rank = 0;
  /// The index of the action in timeline.ranks[rank].
  int index = 0;
  /// Empty if the action began because the step before, on its own rank, had ended. Otherwise the actions whose results
  /// it waited for, all of the rank of the step before: the last one is its own input, those before it kept the link
  /// busy.
  std::vector<Action> messages;
};

struct CriticalPath {
  /// In order of time. Each step begins when the one before it has ended and its messages have arrived.
  std::vector<CriticalStep> steps;
  /// What the steps and their messages take. The sum is the makespan of the timeline.
  TimeByCost time{};
};

/// A chain of actions and messages without gaps, from the begin of the timeline to its end. If there are several, this
/// one ends on the first of the ranks that end last, and leaves a rank only where the rank has waited. `timeline` is
/// what `simulate` gives for the schedule and the costs. Linear in the number of actions. InputError for other actions
/// than F, B, I, W and R, and for costs with an overlap of F and B.
CriticalPath critical_path(const Schedule& schedule, const SimulationCosts& costs, const Timeline& timeline);

/// The makespan as a function of one cost, where all other costs and the order of each rank stay as they are. The
/// function is convex, and linear between the costs at which another path becomes critical.
struct CostEffect {
  CostKind kind = CostKind::forward;
  /// The time of this cost on the path of `critical_path`.
  double time_on_path = 0;
  /// The time of this cost that a slightly smaller cost shortens: if there are several critical paths, that of the path
  /// which has the least of it. If the cost falls by a small share, the makespan falls by this share of the gain. A
  /// gain of 0 means that no smaller cost shortens the makespan.
  double gain = 0;
  /// The makespan falls with this gain until the cost is `until` times as large as it is, from 0 to 1; below that,
  /// another path is critical and has less of this cost. 1 if the gain is 0.
  double until = 1;
  /// The makespan at that cost, and where the cost is 0.
  double makespan_until = 0;
  double makespan_at_zero = 0;
};

/// One element for each cost that takes time in the schedule, in the order of `CostKind`. Simulates the schedule
/// several times for each: a tangent of the function at 0 and one at the present cost meet at the next cost to be
/// tried, until the function has no value above the latter (Newton's method, which ends because the function has few
/// pieces). InputErrors as `critical_path`.
std::vector<CostEffect> cost_effects(const Schedule& schedule, const SimulationCosts& costs);

}  // namespace heddle
