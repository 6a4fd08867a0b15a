#include "experiments/config/json_identity.h"
#include "experiments/config/study.h"
#include "experiments/program/commands.h"
#include "experiments/program/job.h"
#include "experiments/program/study_checks.h"
#include "experiments/results/accuracy_tables.h"
#include "experiments/results/summary.h"
#include "experiments/training/checkpoints/checkpoint.h"
#include "experiments/training/evaluation/evaluate_checkpoint.h"
#include "experiments/training/ranks/job_agreement.h"
#include "experiments/training/ranks/world_options.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "parallel/transports/transports.h"

namespace heddle {

namespace {

/// The experiment of a checkpoint, with --set on top of it. Without a job its ranks are threads, whatever it was
/// trained on.
Study<Experiment> experiment_of(const FoundCheckpoint& checkpoint, const std::vector<std::string>& given,
                                const Processes* job) {
  const CheckpointFolder folder(checkpoint.folder, json_identity());
  const std::string text = folder.experiment(checkpoint.steps);
  const std::string where = fmt::format("{}: its experiment", checkpoint.folder.string());
  Study<Experiment> study = read_study_text<Experiment>(text, where, given);
  for (auto& member : study.variants)
    if (job == nullptr && transport_type(member.root.transport).needs_job) member.root.transport = "threads";
  study = checked(std::move(study));
  fit_to_job(study, job);
  return study;
}

}  // namespace

void eval_command(const EvalCommand& command, const Console& console, Processes* job) {
  FoundCheckpoint checkpoint;
  Study<Experiment> study;
  together(job, [&] {
    checkpoint = find_checkpoint(command.checkpoint);
    study = experiment_of(checkpoint, command.sets, job);
    find_device(world_options(study.variants.front().root, job));
  });
  const StudyVariant& member = study.variants.front();
  console.err << fmt::format("{}: step {} of {}, {} rank{}\n", study.name, checkpoint.steps, checkpoint.folder.string(),
                             ranks_of(member.root), ranks_of(member.root) == 1 ? "" : "s")
              << std::flush;
  VariantResult variant;
  variant.name = study.name;
  variant.evaluation.emplace().sets = evaluate_checkpoint(member.root, checkpoint, job);
  if (job != nullptr && job->rank() != 0) return;
  RunResult run;
  run.name = study.name;
  run.variants.push_back(std::move(variant));
  const std::string json = sets_json(run.variants.front(), checkpoint.folder.string(), checkpoint.steps);
  if (!command.out.empty()) {
    std::filesystem::create_directories(command.out);
    write_file_atomically(command.out / "evaluation.json", json);
    write_file_atomically(command.out / "roc.csv", roc_csv(run));
  }
  console.out << (command.json ? json : sets_table(run) + identification_table(run)) << std::flush;
}

}  // namespace heddle
