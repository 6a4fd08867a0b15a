// What an action of a schedule waits for, and the order in which all lists can be executed.
//
// An F needs the F of the stage before; a B or I its own F, the gradient from the stage after and, in the last stage,
// the loss if there is one; a W its I; an R its F. Overlapped actions begin together: all their inputs must be there
// before the first, and what they make is there after the last. Sends wait for nothing; a receive is posted and waited
// for by the action that needs it. An H of several ranks is a collective.
#pragma once

#include <functional>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace heddle {

constexpr bool is_backward(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}

/// What passes have added to the computing.
struct Additions {
  int loss_ranks = 0;  // that have an H
  bool messages = false;
};
Additions additions(const Schedule& schedule);

/// Past the last action that begins together with the one at `first`.
int end_of_overlap(const std::vector<Action>& list, int first);

/// Where a walk over the lists ended.
struct Walk {
  /// Of each rank: the actions that could be executed.
  std::vector<int> reached;
  /// Of a rank that did not reach its end: what must come first, as the action that makes (or sends) it.
  std::vector<Action> waits_for;

  bool complete(const Schedule& schedule) const;
};

/// Called for a rank's actions [first, end), which begin together, after all that they need.
using Visit = std::function<void(int rank, int first, int end)>;

/// Executes without tensors, as far as it goes, in time linear in the number of actions. Stages and micro-batches must
/// be in range.
Walk walk(const Schedule& schedule, const Visit& visit = {});

}  // namespace heddle
