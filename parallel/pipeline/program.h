// A schedule and the waits for its sends: what the engine executes.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace heddle {

/// A schedule that is ready to be executed. All ranks of a run share it.
struct PipelineProgram {
  /// The schedule with communication.
  Schedule schedule;
  /// For each rank, the sends that are waited for before its action with this index. All others are waited for at the
  /// end.
  std::vector<std::map<std::size_t, std::vector<Action>>> waits;
};
/// InputError if the schedule cannot be executed.
std::shared_ptr<const PipelineProgram> make_program(Schedule schedule);
/// A schedule of forward passes only, with communication: stage by stage, each for all micro-batches. It has one copy
/// of each stage.
Schedule forward_only(const std::vector<int>& rank_of, int micro_batches);

}  // namespace heddle
