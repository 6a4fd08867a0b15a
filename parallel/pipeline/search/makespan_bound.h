// A lower bound on the makespan of every schedule with a given placement, costs and memory.
#pragma once

#include "parallel/pipeline/search/scheduling_problem.h"

namespace heddle {

/// No schedule that executes F, I and W (or B) of all micro-batches, in every stage in order, and fits into the memory,
/// ends earlier. Each rank is considered by itself, with the earliest time at which a micro-batch can reach each of its
/// stages and the least time that is left after it. The bound is the largest over the ranks of:
/// - the least makespan of the rank's actions on one machine with interruptions, each with its earliest begin and the
///   least time after it (Carlier 1982);
/// - the rank's work, with the idle time that the memory enforces, because before the first I can come back the rank
///   can only execute the F that fit into it; the end of a step is the same in reverse;
/// - the time for which each micro-batch occupies the memory of the rank, divided by the memory.
/// Infinity if a rank cannot hold one micro-batch.
double makespan_bound(const SchedulingProblem& problem);

}  // namespace heddle
