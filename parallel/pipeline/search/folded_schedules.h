// The schedules of Qi et al. 2024 (see folded_blocks.h): a block is repeated for each micro-batch, then the beginning
// and the end are rearranged so that ranks idle less without holding more. The order of each rank's actions is kept;
// their times follow from the costs.
#pragma once

#include <vector>

#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/search/folded_blocks.h"

namespace heddle {

/// Up to two schedules, which differ in whether idle slots are filled with later actions. None if the beginning or the
/// end cannot be arranged, or if a rank would hold more than `zb_v` does.
std::vector<Schedule> folded_schedules(const FoldedBlock& block, int micro_batches);

}  // namespace heddle
