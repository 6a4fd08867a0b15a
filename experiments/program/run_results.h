// The results of a run or a plan, as a command prints them.
#pragma once

#include "experiments/program/console.h"
#include "experiments/training/measurements/result.h"

namespace heddle {

/// Prints tables, or the summary as JSON. Returns the exit code: 0, or that of the first variant that ended early.
int print_results(const RunResult& run, bool json, const Console& console);

}  // namespace heddle
