// The experiment of a checkpoint as JSON, which a reader of the checkpoint's metadata can use as an experiment file.
#pragma once

#include "experiments/training/checkpoints/checkpoint.h"

namespace heddle {

ExperimentIdentity json_identity();

}  // namespace heddle
