// The ranks on which an experiment runs.
#pragma once

#include "experiments/training/experiment.h"
#include "parallel/transports/processes/job.h"
#include "parallel/world.h"

namespace heddle {

/// The ranks of a run, as the experiment says. With a job each of its processes has one of them.
WorldOptions world_options(const Experiment& experiment, Job* job = nullptr);
/// The number of computing threads of each rank: as the experiment says, or this machine's share.
int threads_of(const Experiment& experiment, Job* job = nullptr);
/// The number of ranks of the experiment's mesh.
int ranks_of(const Experiment& experiment);

}  // namespace heddle
