// The sets of an experiment, judged by one of its checkpoints. The data of the training need not be there.
#pragma once

#include <filesystem>
#include <vector>

#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/evaluation/evaluated_set.h"
#include "experiments/training/experiment.h"
#include "parallel/transports/processes/processes.h"

namespace heddle {

/// Evaluates `experiment.evaluation.sets` on the experiment's mesh, which may be another than that of the training.
/// Data are opened only if a set is drawn from them. Only rank 0's process gets results. InputError if there is no set,
/// if one cannot be used, or if the checkpoint is of another model.
std::vector<EvaluatedSet> evaluate_checkpoint(const Experiment& experiment, const FoundCheckpoint& checkpoint,
                                              Processes* job = nullptr);

}  // namespace heddle
