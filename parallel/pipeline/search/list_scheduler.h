// A family of schedules found by list scheduling: whenever a rank is free, it takes the best action that is possible
// within its memory. Unlike the named schedules, these are made for given costs.
#pragma once

#include <optional>

#include "parallel/pipeline/search/scheduling_problem.h"

namespace heddle {

struct ListRules {
  /// The largest number of micro-batches between the first F and the last I of the model.
  int max_in_flight = 1;
  /// A rank that could compute a W waits instead for an F or I that will be ready within this part of the W's time.
  double patience = 0;
  /// Whether F and I alternate if both could be next; else I comes first.
  bool alternates = false;
};

/// F, I and W of all stages in the order of the micro-batches; empty if there is not enough memory.
std::optional<Schedule> list_schedule(const SchedulingProblem& problem, const ListRules& rules);

}  // namespace heddle
