// Evaluates a checkpoint on the sets of its experiment. The data of the training are not needed.
#pragma once

#include <filesystem>
#include <vector>

#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/evaluation/evaluated_set.h"
#include "experiments/training/experiment.h"
#include "parallel/transports/processes/job.h"

namespace heddle {

/// Evaluates `experiment.evaluation.sets` on the experiment's mesh, which may differ from that of the training. The
/// data are opened only if a set is drawn from them. Only rank 0's process receives results. InputError if there is no
/// set, if a set cannot be used, or if the checkpoint belongs to another model.
std::vector<EvaluatedSet> evaluate_checkpoint(const Experiment& experiment, const FoundCheckpoint& checkpoint,
                                              Job* job = nullptr);

}  // namespace heddle
