// Checks each rank's list of a schedule by itself, which is a part of `validate` (validation.h).
#pragma once

#include <optional>

#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/validation.h"

namespace heddle {

/// Whether each list has the cells of its rank, once, and each cell after the rank's own cells that it needs. Every
/// stage must be on a rank.
std::optional<ScheduleFault> fault_within_a_list(const Schedule& schedule);

}  // namespace heddle
