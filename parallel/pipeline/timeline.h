// The timeline of each rank's actions. A prediction of the simulator and a measurement of a run have this same type,
// from which the picture, the notebook and the trace are drawn.
#pragma once

#include <vector>

#include "parallel/pipeline/schedule.h"

namespace heddle {

struct TimedAction {
  Action action;
  double begin = 0;  // seconds, or units of the costs
  double end = 0;
};

struct Timeline {
  /// The computing actions of each rank, in order. Messages appear only as gaps.
  std::vector<std::vector<TimedAction>> ranks;
  /// The O and L of each rank on its link to the host's memory, in order. Empty if no rank has any.
  std::vector<std::vector<TimedAction>> host_links{};

  /// The time from the first begin to the last end of all ranks.
  double makespan() const;
  /// 1 - busy / (ranks * makespan), which runs report as bubble_fraction.
  double idle_fraction() const;
  /// 1 - busy / span, as papers report it: busy is that of the busiest rank, span the longest time from a rank's first
  /// begin to its last end.
  double span_bubble() const;
};

}  // namespace heddle
