// Schedules as PyTorch's pipelining writes and reads them: one row a rank, cells `2F0`, `7I0`, `0B1`; an empty cell is
// an idle slot, `(0F7;7B3)OVERLAP_F_B` an overlapped pair. Recomputation and H have no letter there and are left out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parallel/pipeline/schedule.h"

namespace heddle {

/// What is read of a file.
inline constexpr std::uint64_t most_csv_bytes = std::uint64_t{1} << 30;

std::string to_csv(const Schedule& schedule);

/// Computing actions only: sends, receives and the sharding actions of the file are checked for their form and left
/// out, for ours are derived. Stages and micro-batches are counted from the cells. InputError names row and cell of
/// what is no action (`name:3: cell 5: ..`), and is what `check` says of the whole.
Schedule from_csv(std::string_view text, std::string_view name);

}  // namespace heddle
