// The events of a run, for a program that prints them, records them or ends a run that hangs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/training/measurements/result.h"

namespace heddle {

/// Each function does nothing unless it is overridden. All but `on_stall` are called by one thread at a time, that of
/// rank 0 or the caller's, and only in the process that has rank 0.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  /// The first step is about to begin; it is not 0 when the run resumes from a checkpoint. Returns what is
  /// known of the steps before it.
  virtual EarlierRun on_begin(std::int64_t /*first_step*/) { return {}; }
  /// A step has ended.
  virtual void on_step(const StepRecord& /*record*/) {}
  /// A phase other than a step begins: "saving".
  virtual void on_status(const std::string& /*text*/) {}
  /// A note for the user, for example about the differences between a resumed run and the run that saved.
  virtual void on_note(const std::string& /*text*/) {}
  /// A rank has failed and another one does not end, so that the program should exit. Called where the ranks are
  /// threads of one process, by a thread that is not a rank's.
  virtual void on_stall(const std::string& /*why*/) {}
};

}  // namespace heddle
