// The cells that only a study of pipelines has: speed-up beside the ideal's, predicted beside measured steps.
#pragma once

#include <vector>

#include "notebooks_export/cells.h"

namespace heddle {

/// They go on from `results_cells`' variables.
std::vector<NotebookCell> pipeline_cells();

}  // namespace heddle
