// The restarts of a job as they are written in metrics.jsonl and summary.json.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "experiments/training/measurements/result.h"

namespace heddle {

nlohmann::ordered_json restarts_json(const std::vector<Restart>& restarts);
/// The restarts under the key `restarts` of a step's line; none if it lacks them. What does not have the form that
/// restarts_json gives is left out.
std::vector<Restart> restarts_of(const nlohmann::ordered_json& line);

}  // namespace heddle
