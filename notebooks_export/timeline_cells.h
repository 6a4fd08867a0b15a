// The cell that draws a step of each variant from trace.json, one row a rank.
#pragma once

#include <vector>

#include "notebooks_export/cells.h"

namespace heddle {

/// They go on from `results_cells`' variables.
std::vector<NotebookCell> timeline_cells();

}  // namespace heddle
