// Checks whether a schedule can be executed, and finds the first wrong cell.
#pragma once

#include <optional>
#include <string>

#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/schedule.h"

namespace heddle {

struct ScheduleFault {
  int rank = 0;
  /// The index of the wrong cell in ranks[rank]; past the last one if something is missing at the end.
  int index = 0;
  std::string why;  // `1B3: appears twice`, `0B2: before its input 0F2`
};

/// Checks that every stage's F and, unless the schedule is forward only, its B or its I and W stand exactly once for
/// each micro-batch and on the stage's rank; that nothing comes before its input; that sends and receives of each pair
/// of ranks match in order, and the parts of a loss; and that no ranks wait for each other in a cycle. Takes lists of
/// computing actions only, and those that passes have made.
std::optional<ScheduleFault> validate(const Schedule& schedule);

/// The cells around a fault as text, with one row per rank; the wrong cell is marked `>1B3<`.
std::string draw_around(const Schedule& schedule, const ScheduleFault& fault);

/// Throws InputError with what `validate` and `draw_around` report if there is a fault.
void check(const Schedule& schedule, std::string_view name);

/// `check` in two parts, for callers that walk over the lists themselves: `check_lists` finds every fault but a cycle
/// of waits, and `check_walk` finds that in their walk.
void check_lists(const Schedule& schedule, std::string_view name);
void check_walk(const Schedule& schedule, const Walk& walked, std::string_view name);

}  // namespace heddle
