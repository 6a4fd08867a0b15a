// The output of `heddle schedule --critical-path`.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "parallel/pipeline/critical_path.h"

namespace heddle {

struct CriticalPathReport {
  CriticalPath path;
  std::vector<CostEffect> effects;
  /// The costs as the user gives them: those of a micro-batch on a whole rank, and of one transfer.
  TimeByCost costs{};
};

/// One row per cost: its share of the makespan, by how much a smaller cost shortens it, and down to which cost.
std::string critical_path_table(const CriticalPathReport& report);

/// The same, and the actions and messages of the path with their times.
nlohmann::ordered_json critical_path_json(const CriticalPathReport& report, const Timeline& timeline);

}  // namespace heddle
