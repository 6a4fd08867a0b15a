// Is a schedule one that can be executed? Names the first cell that is wrong.
#pragma once

#include <optional>
#include <string>

#include "parallel/pipeline/schedule.h"

namespace heddle {

struct ScheduleFault {
  int rank = 0;
  /// The wrong cell of ranks[rank]; past the last one if something is missing at the end.
  int index = 0;
  std::string why;  // `1B3: comes twice`, `0B2: before its input 0F2`
};

/// Every stage's F, and, unless the schedule is forward only, B or I and W, exactly once for each micro-batch and on
/// its own rank; nothing before its input; sends matched by receives, in one order a pair; no circle of ranks that wait
/// for each other. For compute-only lists and for those that passes have made.
std::optional<ScheduleFault> validate(const Schedule& schedule);

/// The cells around a fault as text, one row a rank, the wrong one marked `>1B3<`.
std::string draw_around(const Schedule& schedule, const ScheduleFault& fault);

/// InputError with what `validate` and `draw_around` say, if there is a fault.
void check(const Schedule& schedule, std::string_view name);

}  // namespace heddle
