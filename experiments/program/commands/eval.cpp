#include <CLI/CLI.hpp>

#include "experiments/program/checkpoint_study.h"
#include "experiments/program/commands/command.h"
#include "experiments/program/study_checks.h"
#include "experiments/program/target_file.h"
#include "experiments/results/accuracy_tables.h"
#include "experiments/results/results_folder.h"
#include "experiments/results/summary.h"
#include "experiments/training/evaluation/evaluate_checkpoint.h"
#include "experiments/training/ranks/job_agreement.h"
#include "experiments/training/ranks/world_options.h"
#include "framework/description/text.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {

namespace {

struct EvalCommand {
  std::filesystem::path checkpoint;  // a folder step-..., a folder that contains some, or a results folder
  std::vector<std::string> sets;     // a.b=json
  bool raw_weights = false;
  bool json = false;
  std::filesystem::path out;  // a folder for evaluation.json and roc.csv; empty: they are not written
};

/// The variant to which a checkpoint belongs, by its place: RESULTS/checkpoint/VARIANT, or its folder `best`. The name
/// of the experiment if it lies elsewhere.
std::string variant_of(const FoundCheckpoint& checkpoint, const std::string& experiment) {
  std::filesystem::path folder = std::filesystem::absolute(checkpoint.folder);
  if (folder.parent_path().filename() != "checkpoint") folder = folder.parent_path();
  return folder.parent_path().filename() == "checkpoint" ? variant_of_folder(folder.filename().string()) : experiment;
}

/// Evaluates the sets of a checkpoint's experiment by its weights, on the processes of a job if there is one.
void eval_command(const EvalCommand& command, const Console& console, Job* job) {
  FoundCheckpoint checkpoint;
  Study<Experiment> study;
  together(job, [&] {
    if (!command.out.empty() && std::filesystem::exists(command.out / "metrics.jsonl"))
      fail<InputError>(
          "{}: holds the results of a run, whose roc.csv would be replaced: choose another folder with --out",
          command.out.string());
    if (!command.out.empty() && (job == nullptr || job->rank() == 0)) {
      make_folder(command.out);
      check_writable(command.out / "evaluation.json");
    }
    checkpoint = find_checkpoint(command.checkpoint);
    study = checkpoint_study(checkpoint, command.sets, job);
    if (command.raw_weights) study.variants.front().root.train.averages_weights = false;
    check_available(world_options(study.variants.front().root, job));
  });
  const StudyVariant& member = study.variants.front();
  const bool is_averaged = member.root.train.averages_weights;
  console.err << fmt::format("{}: step {} of {}, {}{}\n", study.name, checkpoint.steps, checkpoint.folder.string(),
                             is_averaged ? "averaged weights, " : "", counted(ranks_of(member.root), "rank", "ranks"))
              << std::flush;
  VariantResult variant;
  variant.name = variant_of(checkpoint, study.name);
  variant.evaluation.emplace().sets = evaluate_checkpoint(member.root, checkpoint, job);
  variant.evaluation->is_averaged = is_averaged;
  if (job != nullptr && job->rank() != 0) return;
  RunResult run;
  run.name = study.name;
  run.variants.push_back(std::move(variant));
  const std::string json = sets_json(run.variants.front(), checkpoint.folder.string(), checkpoint.steps);
  console.out << (command.json ? json : sets_table(run) + identification_table(run)) << std::flush;
  if (!command.out.empty()) {
    write_file_atomically(command.out / "evaluation.json", json);
    if (const std::string roc = roc_csv(run); !roc.empty())
      write_file_atomically(command.out / "roc.csv", roc);
    else
      std::filesystem::remove(command.out / "roc.csv");  // of an earlier evaluation
  }
}

}  // namespace

void add_eval(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<EvalCommand>();
  add_checkpoint_option(app, command->checkpoint);
  add_set_option(app, command->sets)
      .description("override one key of the checkpoint's experiment, as in evaluation.sets='[...]' or mesh.dp=2");
  add_raw_weights_option(app, command->raw_weights);
  app.add_flag("--json", command->json, "print the results as JSON instead of the table");
  add_out_option(app, command->out, "also write evaluation.json and roc.csv into a folder").check(not_a_file);
  app.callback([&call, command] { eval_command(*command, call.console, call.join()); });
}

}  // namespace heddle
