// The tables at the end of a run. They fit 100 columns unless different names would become equal, and need no
// colour.
#pragma once

#include <string>

#include "experiments/results/grid.h"
#include "experiments/training/measurements/result.h"

namespace heddle {

/// Variants with loss, time and memory; pipelines with their speedup over naive; each rank's memory by category;
/// accuracies and predictions where there are any. Long names are shortened in their middle, and neighbouring ranks
/// with equal rows share one.
std::string results_table(const RunResult& run);

/// `12.3 ms`, `4.56 s`, `3 min 20 s`, `2 h 05 min`.
std::string format_seconds(double seconds);

}  // namespace heddle
