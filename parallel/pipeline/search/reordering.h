// Local search over the order of a schedule's actions: simulated annealing that moves up to three actions of a rank at
// a time, mostly on the critical path. It finds the waits that no rule of a list scheduler would choose.
#pragma once

#include <cstdint>

#include "parallel/pipeline/search/random_numbers.h"
#include "parallel/pipeline/search/scheduling_problem.h"
#include "parallel/pipeline/search/search_watch.h"

namespace heddle {

struct AnnealingOptions {
  /// The number of actions that may be timed.
  std::int64_t budget = 0;
  /// Ends at this makespan, which cannot be beaten.
  double stop_at = 0;
  /// The increase of the makespan that is accepted at first with probability 1/e, in mean times of an action.
  double temperature = 0.3;
};

struct ReorderedSchedule {
  Schedule schedule;
  double makespan = 0;
};

/// The makespan of a schedule that can be executed, of F, I and W: what `simulate` gives, without its checks.
double makespan_of(const SchedulingProblem& problem, const Schedule& schedule);

/// A schedule that takes at most as long and fits as well. `schedule` has F, I and W, in every stage in the order of
/// the micro-batches, can be executed, and fits into the problem's memory.
ReorderedSchedule reorder(const SchedulingProblem& problem, const Schedule& schedule, const AnnealingOptions& options,
                          RandomNumbers& random, SearchWatch& watch);

}  // namespace heddle
