// `run --elastic`: when processes of a job end, the others restart it on a mesh of as many ranks as are left, from the
// newest checkpoint. Each of them then runs the program from the beginning, with its new rank in the environment, so
// that what follows is a resumed run.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "experiments/config/study.h"
#include "experiments/training/experiment.h"
#include "experiments/training/interruption.h"
#include "experiments/training/measurements/result.h"
#include "parallel/transports/join_job.h"

namespace heddle {

/// Gives a process that a restart began the program's name, by which `ps` and `pgrep` find it, in place of `exe`.
void keep_program_name();

/// Number, time and cause of the restart that began this process's job; nothing in a job that the user has started.
std::optional<Restart> restart_of_environment();

/// Gives a checked study the first of its meshes that has at most as many ranks as there are processes: its own, or one
/// of elastic.meshes. Returns the number of ranks of its own. InputError if there is none at the first start, if the
/// study has several variants, or if its runs do not save. RankFailed if there is none after a restart.
int choose_mesh(Study<Experiment>& study, int processes);

/// InputError unless the processes of this job can restart it: they are connected by sockets.
void check_can_restart(const Job* job);

/// The option that says what the first start was to do with an earlier run's results: "--force", "--resume", or "" if
/// neither was given. Nothing unless the job has restarted before its results folder was ready.
std::optional<std::string> first_start_of_environment();

/// Remembers which summary an earlier run has left in the results folder. To be called at the first start of a job.
void remember_summary(const std::filesystem::path& results);

/// RankFailed if the results folder, which this process has just locked, shows that the others have completed the run
/// without it: it has a summary, and not that of an earlier run.
void check_goes_on(const std::filesystem::path& results);

/// A checksum of an experiment and the options of its run: alike in all processes of a job. 0 if the experiment is
/// wrong, which all of them report together.
std::uint64_t checksum_of_call(const std::filesystem::path& file, const std::vector<std::string>& sets,
                               const std::string& options);

/// In a process that was started again: finds the process that leads the job, by the file that it has written into the
/// results folder, or else, unless this process itself was rank 0, at MASTER_ADDR and MASTER_PORT; and lets these name
/// it. `on_note` is called when that takes long. RankFailed if none can be reached within the time of a rendezvous, or
/// if the job ends meanwhile.
void find_leader(const std::filesystem::path& results, const std::function<void(const std::string& what)>& on_note);

/// In a process that was started again: finds the process that leads the job, and calls `join`, which joins it; once
/// more if that process ends or does not answer in time. RankFailed as `find_leader`, or if this process was given no
/// rank within the time of a rendezvous and `wait`, for which a restart waits for lost processes.
Job* join_restarted(const std::filesystem::path& results, std::chrono::duration<double> wait,
                    const std::function<Job*()>& join, const std::function<void(const std::string& what)>& on_note);

/// Removes what an earlier job has written for `find_leader`.
void forget_leader(const std::filesystem::path& results);

/// Restarts the job as `run_or_restart` does, after a failure that preceded the variant. Returns if it cannot restart.
/// `asked`: as in `first_start_of_environment`, if this is the first start.
void restart_unprepared(Job& job, const ElasticConfig& config, int preferred_ranks,
                        const std::filesystem::path& results, std::ostream& all, const std::string& why,
                        const char* asked);

/// Returns what `run` does, unless processes with one of its `ranks` end meanwhile. Then the others restart the job, as
/// often as elastic.restarts allows, with up to `preferred_ranks` processes if lost ones come back, and this process
/// runs the program again as its part in that. If it is asked to end meanwhile, it leaves the job: the result of `run`
/// becomes that of an interrupted one. The process that leads the restart says so on `all`, which every process can
/// print on, and writes its address into the results folder. RankFailed if the others go on without this process.
VariantResult run_or_restart(Job& job, const ElasticConfig& config, int ranks, int preferred_ranks,
                             const std::filesystem::path& results, Interruption& interruption, std::ostream& all,
                             const std::function<VariantResult()>& run);

/// Runs the program again, with the rank that was assigned to this process.
[[noreturn]] void restart_as(const RankAssignment& assignment, const Restart& restart);

}  // namespace heddle
