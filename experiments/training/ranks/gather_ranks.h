// With one process for each rank, every process knows its own row of a result only: rank 0 gathers them.
#pragma once

#include <string>
#include <string_view>

#include "experiments/training/result.h"
#include "parallel/transports/processes/processes.h"

namespace heddle {

/// On rank 0 fills in the other processes' rows, also after a failure; a process that is gone leaves an empty one. A
/// call of all processes between their sections.
void gather_ranks(VariantResult& result, Processes& job);

/// What a process measured of its row, as it travels, and back: all but what follows from the mesh.
std::string serialized(const RankResult& row);
void deserialize(std::string_view text, RankResult& row);

}  // namespace heddle
