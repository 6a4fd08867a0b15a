// The costs of one rank's part of the head, before anything runs: memory, operations and messages.
#pragma once

#include <cstdint>

#include "experiments/training/experiment.h"
#include "layers/planner/plan_report.h"
#include "layers/planner/planner.h"

namespace heddle {

/// The bytes that one rank holds of a head for embeddings of `dimension` numbers from step to step.
std::int64_t head_bytes(const Experiment& experiment, std::int64_t dimension, const Mesh& mesh);

/// The costs of one rank's part of the head in a step. `last_rank` is the coordinate along pp of the ranks that have
/// the embeddings.
LayerCosts head_costs(const Experiment& experiment, const ModelDescription& model, const PlannerOptions& options,
                      int last_rank);

}  // namespace heddle
