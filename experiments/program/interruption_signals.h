// Signals that end a run with a checkpoint (SIGINT, SIGTERM and the experiments' save_signal), or a search with its
// result.
#pragma once

#include <set>

#include "experiments/training/interruption.h"

namespace heddle {

/// While it lives, the first of these signals asks the run to end after the step under way, and prints a notice of this
/// on standard error. A further one, or one to which no run responds, has its usual effect: it ends the process at
/// once. One that was ignored stays ignored. There is at most one such object at a time.
class InterruptionSignals {
 public:
  /// `notice` must live as long as the program; null: nothing is said.
  InterruptionSignals(const std::set<int>& signals, const char* notice);
  ~InterruptionSignals();
  InterruptionSignals(const InterruptionSignals&) = delete;
  InterruptionSignals& operator=(const InterruptionSignals&) = delete;

  Interruption& interruption();

 private:
  std::set<int> handled_;
};

}  // namespace heddle
