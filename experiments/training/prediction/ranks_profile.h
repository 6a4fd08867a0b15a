// The costs of stages on a virtual clock: all ranks of the run do a few steps over links that take no time. Each
// computes when it is its turn, with its own part of the layers, and finds as much of its memory in the cache as in the
// run. Ranks that share layers wait for the slowest of them, as often as in the run. The ranks are threads of one
// process, also for a job of several, and together take as much memory as those of the run.
#pragma once

#include <vector>

#include "experiments/training/prediction/stage_profile.h"

namespace heddle {

/// One profile for each measured step. OutOfMemory if a rank exceeds the experiment's budget.
std::vector<StageProfile> profile_ranks(const Experiment& experiment, const Dataset& dataset, const RunPlan& plan);

}  // namespace heddle
