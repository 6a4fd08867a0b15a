// `run --elastic`: when processes of a job end, the others restart it on a mesh of as many ranks as are left, from the
// newest checkpoint. Each of them then runs the program from the beginning, with its new rank in the environment, so
// that what follows is a resumed run.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "experiments/config/study.h"
#include "experiments/program/console.h"
#include "experiments/training/experiment.h"
#include "experiments/training/interruption.h"
#include "experiments/training/measurements/result.h"
#include "parallel/transports/join_job.h"

namespace heddle {

/// Number, time and cause of the restart that began this process's job; nothing in a job that the user has started.
std::optional<Restart> restart_of_environment();

/// Gives a checked study the first of its meshes that has at most as many ranks as there are processes: its own, or one
/// of elastic.meshes. Returns the number of ranks of its own. InputError if there is none at the first start, if the
/// study has several variants, or if its runs do not save. RankFailed if there is none after a restart.
int choose_mesh(Study<Experiment>& study, int processes);

/// InputError unless the processes of this job can restart it: they are connected by sockets.
void check_can_restart(const Job* job);

/// RankFailed if the results folder, which this process has just locked, shows that the others have completed the run
/// without it.
void check_goes_on(const std::filesystem::path& results);

/// Returns what `run` does, unless processes of the job end meanwhile. Then the others restart the job, as often as
/// elastic.restarts allows, with up to `preferred_ranks` processes if lost ones come back, and this process runs the
/// program again as its part in that; but not if it is asked to end. RankFailed if the others go on without this
/// process.
VariantResult run_or_restart(Job& job, const ElasticConfig& config, int preferred_ranks,
                             const Interruption& interruption, const Console& console,
                             const std::function<VariantResult()>& run);

/// Runs the program again, with the rank that was assigned to this process.
[[noreturn]] void restart_as(const RankAssignment& assignment, const Restart& restart);

}  // namespace heddle
