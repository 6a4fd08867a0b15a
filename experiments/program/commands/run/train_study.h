// The variants of a study, trained one after the other.
#pragma once

#include "experiments/program/commands/command.h"
#include "experiments/program/commands/run/prepare_study.h"
#include "experiments/program/commands/run/run_options.h"

namespace heddle {

/// Trains every variant, on the processes of a job if there is one, and prints and writes the results. `folder` is that
/// of rank 0's process, and null on the others. Returns the exit code.
int train_study(const RunOptions& options, PreparedStudy& prepared, ResultsFolder* folder, const CommandCall& call,
                Job* job);

}  // namespace heddle
