// The experiment that a checkpoint was saved by.
#pragma once

#include <string>
#include <vector>

#include "experiments/config/study.h"
#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/experiment.h"

namespace heddle {

class Job;

/// As JSON.
std::string checkpoint_experiment(const FoundCheckpoint& checkpoint);

/// A study of one variant: the experiment with --set on top of it. Without a job its ranks are threads, whatever it was
/// trained on.
Study<Experiment> checkpoint_study(const FoundCheckpoint& checkpoint, const std::vector<std::string>& given,
                                   const Job* job);

}  // namespace heddle
