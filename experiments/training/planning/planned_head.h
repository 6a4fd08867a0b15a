// The costs of one rank's part of the heads, before anything runs: memory, operations and messages.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/training/experiment.h"
#include "layers/planner/placement_report.h"
#include "layers/planner/planner.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {

/// The largest part of a head that a rank has.
struct HeadPart {
  std::int64_t rows = 0;  // the samples of a micro-batch of all ranks that share the classes
  std::int64_t classes = 0;
};
/// One for each head. `last_rank` is the coordinate along pp of the ranks that have the embeddings.
std::vector<HeadPart> head_parts(const Experiment& experiment, const PlannerOptions& options, int last_rank);

/// The bytes that the rank with the most classes holds of all heads for embeddings of `dimension` numbers from step to
/// step.
std::int64_t planned_head_bytes(const Experiment& experiment, std::int64_t dimension, const Mesh& mesh);

/// The messages of a micro-batch's loss in parts (pipeline.head_work), those of all heads together. Each link between
/// two ranks carries its messages by itself: what one rank sends to all, or all to one, takes the time of one message.
LossMessages planned_loss_messages(const Experiment& experiment, std::int64_t dimension, const PlannerOptions& options,
                                   int last_rank);

/// For each head, the costs of its largest part in a step. `last_rank` is the coordinate along pp of the ranks that
/// have the embeddings.
std::vector<LayerCosts> planned_heads(const Experiment& experiment, const ModelSpec& model,
                                      const PlannerOptions& options, int last_rank);

}  // namespace heddle
