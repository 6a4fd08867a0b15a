// Our own family of schedules: each rank takes, whenever it is free, the best of what it could do, as far as memory
// lets it. No named schedule knows the costs; this one is made for them.
#pragma once

#include <limits>
#include <optional>

#include "parallel/pipeline/simulation.h"

namespace heddle {

struct ListRules {
  /// Micro-batches between the first F and the last I of the model: so many F open the step.
  int warm_up = 1;
  /// A bound on what each rank holds of activations and weight inputs.
  double memory = std::numeric_limits<double>::infinity();
  /// A rank that could compute a W waits instead for an F or I that will be there within this part of the W's time.
  double patience = 0;
  /// F and I take turns where both could be next; else I comes first.
  bool takes_turns = false;
};

/// F, I and W of all stages in the order of the micro-batches. None if the memory does not let the ranks go on. Costs
/// are those of each stage.
std::optional<Schedule> list_schedule(std::vector<int> rank_of, int micro_batches, const std::vector<StageCosts>& costs,
                                      const TransferCosts& transfer, const ListRules& rules);

}  // namespace heddle
