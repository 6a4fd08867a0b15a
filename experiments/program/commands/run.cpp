#include <chrono>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "experiments/program/commands/command.h"
#include "experiments/program/commands/run/prepare_study.h"
#include "experiments/program/commands/run/run_options.h"
#include "experiments/program/commands/run/train_study.h"
#include "experiments/program/job/elastic.h"
#include "experiments/program/study_input.h"
#include "experiments/training/ranks/world_options.h"
#include "framework/description/printable.h"

namespace heddle {

namespace {

/// Leaves out the value of a flag that is given without one, which `add_flag` takes as a part of the name.
class WithoutFlagValues : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, is_positional);
    return name.substr(0, name.find('{'));
  }
};

/// `restart_unprepared`, unless the file is wrong.
void restart_unprepared_study(const RunOptions& options, Job& job, std::ostream& all, const std::string& why) {
  Study<Experiment> study;
  try {
    study = read_study<Experiment>(options.file, options.sets);
  } catch (const InputError&) {
    return;
  }
  const Experiment& experiment = study.variants.front().root;
  restart_unprepared(job, experiment.elastic, ranks_of(experiment), options.results(study), all, why,
                     options.replace     ? "--force"
                     : options.resumes() ? "--resume"
                                         : "");
}

Job* join_restarted_study(const RunOptions& options, const CommandCall& call) {
  const Study<Experiment> study = read_study<Experiment>(options.file, options.sets);
  const std::chrono::duration<double> wait(study.variants.front().root.elastic.wait);
  return join_restarted(options.results(study), wait, call.join, [&](const std::string& what) {
    call.all << what << "\n" << std::flush;
  });
}

/// Returns the exit code.
int run_study(const RunOptions& options, const CommandCall& call, Job* job) {
  std::optional<ResultsFolder> folder;  // rank 0's
  PreparedStudy prepared;
  try {
    prepared = prepare_study(options, job, folder);
  } catch (const RankFailed& error) {
    if (options.elastic) restart_unprepared_study(options, *job, call.all, error.what());
    throw;
  }
  if (!prepared.is_finished) return train_study(options, prepared, folder ? &*folder : nullptr, call, job);
  if (!folder) return 0;
  call.console.err << fmt::format(
      "all steps were done before: nothing is left to do, and the results stay as they are\nresults: {}\n",
      printable(options.results(prepared.study).string()));
  if (options.json) call.console.out << prepared.summary << std::flush;
  return 0;
}

}  // namespace

void add_run(CLI::App& app, CommandCall& call) {
  const auto options = std::make_shared<RunOptions>();
  app.formatter(std::make_shared<WithoutFlagValues>());
  add_experiment_option(app, options->file);
  add_set_option(app, options->sets);
  app.add_flag("--json", options->json, "print the summary as JSON instead of the table");
  add_out_option(app, options->out, "results folder (default: results/NAME)").check(not_a_file);
  CLI::Option* const resume =
      app.add_flag(fmt::format("--resume{{{}}}", RunOptions::resume_always), options->resume,
                   "resume from the newest checkpoint in the results folder, on any number of ranks; --resume=auto "
                   "begins a new run where there is none")
          ->check(CLI::IsMember({RunOptions::resume_always, RunOptions::resume_if_possible}).description(""));
  app.add_flag("--force", options->replace,
               "replace the checkpoints of an earlier run, or another experiment's results, in the results folder")
      ->excludes(resume);
  CLI::Option* const fresh =
      app.add_flag("--fresh-head", options->fresh_head,
                   "with --resume: keep the backbone and begin a new head; classes and data may change")
          ->needs(resume);
  CLI::Option* const grow =
      app.add_flag(
             "--grow-head", options->grow_head,
             "with --resume: people are added to the head or dropped; the others keep their weights, by name where the "
             "data have names; data and head.classes may change")
          ->needs(resume)
          ->excludes(fresh);
  app.add_flag(
         "--elastic", options->elastic,
         "in a job connected by sockets: when processes end, the others go on from the newest checkpoint, on a mesh "
         "of elastic.meshes")
      ->excludes(fresh)
      ->excludes(grow);
  add_placements_option(app, options->automatic);
  app.callback([&call, options] {
    if (restart_of_environment()) keep_program_name();
    if (options->elastic)
      call.elastic_checksum = checksum_of_call(
          options->file, options->sets,
          fmt::format("--out {}{}", options->out.string(), options->automatic ? " --placements auto" : ""));
    try {
      const std::optional<Launch> launch = launch_of_environment();
      const bool comes_back = options->elastic && launch && launch->was_started_again;
      call.code = run_study(*options, call, comes_back ? join_restarted_study(*options, call) : call.join());
    } catch (const RankAssigned& found) {
      Restart restart = restart_of_environment().value_or(Restart());  // of which this one is a part
      restart.number = found.assignment().restarts;
      restart_as(found.assignment(), restart);
    }
  });
}

}  // namespace heddle
