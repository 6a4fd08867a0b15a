// What the schedulers of the search are given: which rank has which stage, the costs, and the memory.
#pragma once

#include <limits>
#include <vector>

#include "parallel/pipeline/simulation.h"

namespace heddle {

/// A time that never comes, or a bound that does not bind.
inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// A bound on memory, with a margin for rounding.
constexpr double with_rounding_margin(double memory) {
  return memory * (1 + 1e-9);
}

struct SchedulingProblem {
  int micro_batches = 1;
  /// The rank of each stage, as in `Schedule`.
  std::vector<int> rank_of;
  /// The costs of each stage. A schedule of the search has no R and no H.
  std::vector<StageCosts> costs;
  /// The costs of a transfer between two stages on different ranks.
  TransferCosts transfer;
  /// A bound on the activations and weight inputs that each rank holds.
  double memory = infinity;
  /// The stages of each rank, in ascending order.
  std::vector<std::vector<int>> stages_of;
  /// The time that each rank computes.
  std::vector<double> work;

  int ranks() const { return static_cast<int>(stages_of.size()); }
  int stages() const { return static_cast<int>(rank_of.size()); }
  double max_held() const { return with_rounding_margin(memory); }
  /// The average time of an action, in the units of the costs.
  double mean_action_time() const;
};

/// By how much an F, I or W of a stage changes what its rank holds.
constexpr double change_of_held(const StageCosts& costs, ActionKind kind) {
  return kind == ActionKind::forward          ? costs.activations
         : kind == ActionKind::backward_input ? costs.weight_inputs - costs.activations
                                              : -costs.weight_inputs;
}

/// Whether each rank has the memory for its list of F, I and W.
bool fits(const SchedulingProblem& problem, const Schedule& schedule);

SchedulingProblem scheduling_problem(int micro_batches, std::vector<int> rank_of, std::vector<StageCosts> costs,
                                     const TransferCosts& transfer, double memory);

}  // namespace heddle
