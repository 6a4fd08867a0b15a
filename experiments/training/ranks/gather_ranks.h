// With one process per rank, every process knows only its own row of a result: rank 0 gathers the rows.
#pragma once

#include <string>
#include <string_view>

#include "experiments/training/measurements/result.h"
#include "parallel/transports/processes/job.h"

namespace heddle {

/// On rank 0, fills in the other processes' rows, also after a failure; the row of a process that has ended stays
/// empty. All processes call it, between their sections.
void gather_ranks(VariantResult& result, Job& job);

/// The measurements of a process's row as they are sent, and back: all members except those that follow from the mesh.
std::string serialized(const RankResult& row);
void deserialize(std::string_view text, RankResult& row);

}  // namespace heddle
