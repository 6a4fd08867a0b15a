// The cells that only a study of heads of several sizes has: time, memory and bytes sent over classes, ranks and the
// sample's rate, beside what formulas say, and from how many classes on a sample pays.
#pragma once

#include <vector>

#include "notebooks_export/cells.h"

namespace heddle {

/// They go on from `results_cells`' variables.
std::vector<NotebookCell> head_cells();

}  // namespace heddle
