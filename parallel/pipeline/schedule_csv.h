// Schedules in the file format of PyTorch's pipelining: one row per rank with cells such as `2F0`, `7I0` and `0B1`; an
// empty cell is an idle slot, `(0F7;7B3)OVERLAP_F_B` an overlapped pair. The format has no letters for R, H, J, S
// and T, which are left out, nor for O and L, which are written as `2O0` and `2L0` if the schedule has any: PyTorch
// does not read those files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parallel/pipeline/schedule.h"

namespace heddle {

/// Longer files are refused.
inline constexpr std::uint64_t max_csv_bytes = std::uint64_t{1} << 30;

std::string to_csv(const Schedule& schedule);

/// Returns the computing actions, O and L only. The file's sends, receives and sharding actions are checked for their
/// form and left out, because Heddle derives its own. The numbers of stages and micro-batches follow from the cells.
/// InputError names the row and the cell of something that is not an action (`name:3: cell 5: ..`), or is what `check`
/// reports about the whole.
Schedule from_csv(std::string_view text, std::string_view name);

}  // namespace heddle
