// What `heddle run` does before the first variant.
#pragma once

#include <optional>
#include <string>

#include "experiments/config/study.h"
#include "experiments/program/commands/run/run_options.h"
#include "experiments/results/results_folder.h"
#include "experiments/training/experiment.h"

namespace heddle {

class Job;

struct PreparedStudy {
  Study<Experiment> study;
  int preferred_ranks = 1;   // of the mesh in the file, where an elastic job has taken another one
  bool is_finished = false;  // when resuming: all steps of all variants have been done before
  std::string summary{};     // of a finished study, for rank 0's process
};

/// Reads the study and checks, on all processes together, that it can run. Rank 0's process gets the results folder.
PreparedStudy prepare_study(const RunOptions& options, Job* job, std::optional<ResultsFolder>& folder);

}  // namespace heddle
