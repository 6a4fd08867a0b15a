// Signals that end a run with a checkpoint, or a search with the best so far: SIGINT, SIGTERM and the experiments'
// save_signal.
#pragma once

#include <set>

#include "experiments/training/interruption.h"

namespace heddle {

/// While it lives, the first of these signals asks the run to end, and prints what happens then on standard error:
/// `then` is, for example, `the run ends after this step with a checkpoint`; nothing is printed if it is null. A
/// further one, or one to which no run responds, has its usual effect: it ends the process at once. One that was
/// ignored stays ignored. There is at most one such object at a time.
class InterruptionSignals {
 public:
  InterruptionSignals(const std::set<int>& signals, const char* then);
  ~InterruptionSignals();
  InterruptionSignals(const InterruptionSignals&) = delete;
  InterruptionSignals& operator=(const InterruptionSignals&) = delete;

  Interruption& interruption();
  /// Changes what happens at the first signal, and so what is printed then.
  static void set_then(const char* then);

 private:
  std::set<int> handled_;
};

}  // namespace heddle
