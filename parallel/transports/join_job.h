// Finds the job that started this process: by sockets where the environment names an address for the rendezvous
// (MASTER_ADDR and MASTER_PORT), otherwise by the MPI that this program was linked with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "parallel/transports/processes/job.h"
#include "parallel/transports/processes/launch.h"

namespace heddle {

/// By RANK and WORLD_SIZE where MASTER_ADDR and MASTER_PORT are set, too; otherwise by the variables of Open MPI, of
/// MPICH and its relatives, and of Slurm. Nothing for a process that was started alone. InputError if the local rank is
/// not a number from 0 on.
std::optional<Launch> launch_of_environment();

/// Joins the job of `launch_of_environment`, and waits for its other processes; null for a process that was started
/// alone. To be called once per process. `on_note` is called with the ranks that are still missing when the wait takes
/// long, and when other programs could join, too. A job with a checksum of its call is elastic (Launch). InputError if
/// the job needs MPI and this program was built without it, or if the environment sets only some of the variables that
/// sockets need.
std::unique_ptr<Job> join_job(const std::function<void(const std::string& what)>& on_note,
                              std::optional<std::uint64_t> elastic_checksum = {});

/// Gives this process, or the program that it runs next, the place that it was assigned when its job restarted.
void set_launch(const RankAssignment& assignment);

/// How a user starts a job of so many processes in the way in which this process was started: `WORLD_SIZE=4`, or
/// `mpirun -n 4 ./heddle run FILE`.
std::string start_of_job(int processes);

}  // namespace heddle
