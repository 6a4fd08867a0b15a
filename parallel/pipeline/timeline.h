// When each rank did what: what the simulator predicts and what a run's clock has measured are one type, and the
// picture, the page and the trace are drawn from it.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace heddle {

struct TimedAction {
  Action action;
  double begin = 0;  // seconds, or units of the costs
  double end = 0;
};

struct Timeline {
  /// Of each rank, in order. Computing only: messages show as the gaps that they leave.
  std::vector<std::vector<TimedAction>> ranks;

  /// From the first begin to the last end of all ranks.
  double makespan() const;
  /// 1 - busy / (ranks * makespan): what runs show.
  double idle_fraction() const;
  /// 1 - busy of a rank / (longest time from a rank's first begin to its last end): what papers print; busy is that of
  /// the busiest rank.
  double span_bubble() const;
};

}  // namespace heddle
