// What goes on while a run trains, for whoever shows it, writes it down or stops waiting for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/training/result.h"

namespace heddle {

/// Each function does nothing unless it is overridden. All but `on_stall` are called by one thread at a time, that of
/// rank 0 or the caller's, and only in the process that has rank 0.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  /// The first step is about to begin; it is not 0 when the run goes on from a checkpoint. Gives the records of the
  /// steps before it, if they are known.
  virtual std::vector<StepRecord> on_begin(std::int64_t /*first_step*/) { return {}; }
  /// A step has ended.
  virtual void on_step(const StepRecord& /*record*/) {}
  /// Something other than a step begins: "saving".
  virtual void on_status(const std::string& /*text*/) {}
  /// A remark that the user should read, such as what a resumed run does otherwise than the one that saved.
  virtual void on_note(const std::string& /*text*/) {}
  /// A rank has failed and another one will not end, so that the program should end. Called by a thread that is none of
  /// the ranks', in any process.
  virtual void on_stall(const std::string& /*why*/) {}
};

}  // namespace heddle
