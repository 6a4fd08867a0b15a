// What a run is to the job of processes that mpirun started it in.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "experiments/config/study.h"
#include "experiments/training/experiment.h"
#include "parallel/transports/processes/processes.h"

namespace heddle {

/// The job that this process is part of by its environment, by sockets or by MPI; null for a process that was started
/// alone. InputError if it is MPI's and this program was built without, or by half of what sockets need. To be called
/// once. `on_wait` is told whom it waits for where that takes long.
std::unique_ptr<Processes> join_processes(const std::function<void(const std::string&)>& on_wait);

/// InputError unless all processes were given the same experiments, in `text`, and the same options. Names the first
/// rank that was not, and what differs.
void check_same_call(const std::string& text, const std::string& options, Processes* job);

/// In a job the ranks of every variant are its processes, whatever the file says about the transport (nccl with device
/// cuda, else mpi): the largest mesh must have as many, and those beyond a smaller variant's mesh sit it out. Without a
/// job there is only the transport threads.
void fit_to_job(Study<Experiment>& study, const Processes* job);

}  // namespace heddle
