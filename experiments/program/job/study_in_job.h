// The processes of a job (as mpirun starts them) that run one study together: they agree on the call and the ranks.
#pragma once

#include <string>

#include "experiments/config/study.h"
#include "experiments/training/experiment.h"
#include "parallel/transports/join_job.h"

namespace heddle {

/// InputError unless all processes were given the same experiments, in `text`, and the same options. Names the first
/// rank that was not, and what differs.
void check_same_call(const std::string& text, const std::string& options, Job* job);

/// In a job the ranks of every variant are its processes, whatever transport the file names (nccl with device cuda,
/// otherwise processes). InputError unless the job has as many processes as the largest mesh has ranks; processes
/// beyond the mesh of a smaller variant take no part in it; an elastic job may have more. Without a job, InputError for
/// a transport that needs one.
void fit_to_job(Study<Experiment>& study, const Job* job, bool is_elastic);

}  // namespace heddle
