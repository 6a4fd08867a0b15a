#include "experiments/program/commands/run/prepare_study.h"

#include <utility>

#include "experiments/program/commands/run/existing_results.h"
#include "experiments/program/job/elastic.h"
#include "experiments/program/job/study_in_job.h"
#include "experiments/program/study_checks.h"
#include "experiments/program/study_input.h"
#include "experiments/training/planning/fastest_placements.h"
#include "experiments/training/ranks/job_agreement.h"
#include "experiments/training/ranks/world_options.h"
#include "framework/error.h"
#include "parallel/transports/transports.h"

namespace heddle {

namespace {

ExistingResults use_of_existing(const RunOptions& options) {
  if (options.replace) return ExistingResults::replaced;
  if (!options.resumes()) return ExistingResults::kept;
  return options.resume == RunOptions::resume_always ? ExistingResults::resumed : ExistingResults::resumed_if_possible;
}

/// The options as far as they are about an earlier run: also after a restart those of the first start, if the job has
/// not prepared the folder before.
RunOptions at_first_start(RunOptions options) {
  const std::optional<std::string> asked = first_start_of_environment();
  if (!asked || *asked == "--resume") return options;
  options.replace = *asked == "--force";
  options.resume.clear();
  return options;
}

/// Checks that this machine has the devices on which the experiment computes.
void check_devices_available(const Study<Experiment>& study, Job* job) {
  for (const StudyVariant& member : study.variants)
    if (member.root.device != DeviceType::plan) check_available(world_options(member.root, job));
}

/// Writes the fastest placements into the variants.
void place_automatically(Study<Experiment>& study) {
  for (StudyVariant& member : study.variants) {
    try {
      member.root.model.placements = fastest_placements(member.root);
    } catch (const InputError& error) {
      fail<InputError>("{}: {}", member.name, error.what());
    }
  }
}

/// Opens the folder, which no other run may have.
void open_results(const RunOptions& options, const std::filesystem::path& path, const std::string& experiment_json,
                  std::optional<ResultsFolder>& folder) {
  try {
    folder.emplace(path, experiment_json, options.resumes());
  } catch (const InputError& error) {
    if (restart_of_environment()) fail<RankFailed>("the job goes on without this process: {}", error.what());
    throw;
  }
  if (options.elastic) check_goes_on(path);
  if (options.elastic && !restart_of_environment()) forget_leader(path);
}

/// Removes what an earlier run has left, unless it is resumed: at once if a restart before the first step could take it
/// for this run's, and otherwise once the run begins.
void replace_existing(const RunOptions& options, ResultsFolder& folder) {
  if (options.resumes()) return;
  if (options.replace) folder.replace_checkpoints();
  if (options.elastic) folder.replace_earlier_run();
}

}  // namespace

PreparedStudy prepare_study(const RunOptions& options, Job* job, std::optional<ResultsFolder>& folder) {
  if (options.elastic) check_can_restart(job);
  std::optional<std::string> finished;
  Study<Experiment> study;
  int preferred_ranks = 1;
  // All processes use one type, whatever their machines are.
  const bool is_bf16_fast = broadcast_numbers(job, {is_bf16_fast_here() ? 1.0 : 0.0}).front() != 0;
  together(job, [&] {
    study = checked(read_study<Experiment>(options.file, options.sets), is_bf16_fast);
    if (options.elastic && !restart_of_environment()) remember_summary(options.results(study));
    if (options.elastic) preferred_ranks = choose_mesh(study, job->size());
    fit_to_job(study, job, options.elastic);
    if (options.automatic) place_automatically(study);
  });
  check_same_call(
      effective_json(study),
      fmt::format("--out \"{}\"{}{}{}{}", options.out.string(), options.resumes() ? " --resume=" + options.resume : "",
                  options.fresh_head ? " --fresh-head" : "", options.grow_head ? " --grow-head" : "",
                  options.elastic ? " --elastic" : ""),
      job);
  together(job, [&] {
    check_devices_available(study, job);
    // The resolved value is written, because the number of cores of a different machine would give different bits.
    for (StudyVariant& member : study.variants) member.root.threads = threads_of(member.root, job);
    if (job != nullptr && job->rank() > 0) return;
    const std::filesystem::path path = options.results(study);
    const std::string experiment_json = effective_json(study);
    const RunOptions asked = at_first_start(options);
    open_results(asked, path, experiment_json, folder);  // first, because a run under way has checkpoints, too
    check_existing_results(path, study, use_of_existing(asked));
    replace_existing(asked, *folder);
    if (asked.resumes() && asked.head() == SavedHead::kept) finished = finished_summary(path, study, experiment_json);
  });
  const bool is_finished = broadcast_numbers(job, {finished ? 1.0 : 0.0}).front() != 0;
  return {std::move(study), preferred_ranks, is_finished, finished.value_or("")};
}

}  // namespace heddle
