#include "experiments/training/run.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include <CLI/CLI.hpp>

#include "experiments/config/json_identity.h"
#include "experiments/program/commands/command.h"
#include "experiments/program/commands/run/existing_results.h"
#include "experiments/program/interruption_signals.h"
#include "experiments/program/job/elastic.h"
#include "experiments/program/job/study_in_job.h"
#include "experiments/program/run_reporter.h"
#include "experiments/program/run_results.h"
#include "experiments/program/study_input.h"
#include "experiments/results/results_folder.h"
#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/planning/fastest_placements.h"
#include "experiments/training/ranks/job_agreement.h"
#include "experiments/training/ranks/world_options.h"
#include "framework/description/printable.h"
#include "framework/description/text.h"
#include "framework/error.h"
#include "parallel/transports/transports.h"

namespace heddle {

namespace {

struct RunCommand {
  std::filesystem::path file;
  std::vector<std::string> sets;  // a.b=json
  std::filesystem::path out;      // empty: results/NAME
  bool json = false;
  std::string resume;       // empty: the run begins anew
  bool replace = false;     // the checkpoints of an earlier run
  bool fresh_head = false;  // when resuming
  bool grow_head = false;
  bool elastic = false;
  bool automatic = false;  // the planner's own choice in place of the file's placements

  bool resumes() const { return !resume.empty(); }
  SavedHead head() const { return fresh_head ? SavedHead::fresh : grow_head ? SavedHead::grown : SavedHead::kept; }
};

constexpr const char* resume_always = "always";
constexpr const char* resume_if_possible = "auto";

ExistingResults use_of_existing(const RunCommand& command) {
  if (command.replace) return ExistingResults::replaced;
  if (!command.resumes()) return ExistingResults::kept;
  return command.resume == resume_always ? ExistingResults::resumed : ExistingResults::resumed_if_possible;
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

std::set<int> interrupting_signals(const Study<Experiment>& study) {
  std::set<int> signals{SIGINT, SIGTERM};
  for (const StudyVariant& member : study.variants) {
    if (member.root.train.save_signal == SaveSignal::usr1) signals.insert(SIGUSR1);
    if (member.root.train.save_signal == SaveSignal::usr2) signals.insert(SIGUSR2);
  }
  return signals;
}

/// The command that continues an interrupted run.
std::string continuing(const RunCommand& command) {
  const char* const launcher = std::getenv("HEDDLE_LAUNCHER");  // as it was called
  std::string text =
      shell_word(launcher != nullptr ? launcher : "./heddle") + " run " + shell_word(command.file.string());
  for (const std::string& set : command.sets) text += " --set " + shell_word(set);
  if (!command.out.empty()) text += " --out " + shell_word(command.out.string());
  if (command.automatic) text += " --placements auto";
  if (command.elastic) text += " --elastic";
  // A job that is interrupted while it restarts may have no checkpoint yet.
  return text + (command.resume == resume_if_possible || command.elastic ? " --resume=auto" : " --resume");
}

/// The signal that asks rank 0's process to end; 0: none. The same in all processes of a job.
int signal_of(const Interruption& interruption, Job* job) {
  const auto mine = static_cast<double>(interruption.signal.load());
  return static_cast<int>(broadcast_numbers(job, {mine}).front());
}

/// RankFailed if a process of the job has ended, as far as this one knows.
void check_all_are_there(const std::string& variant, const Job* job) {
  for (int p = 0; job != nullptr && p < job->size(); ++p)
    if (const std::optional<std::string> why = job->why_lost(p)) fail<RankFailed>("{} cannot begin: {}", variant, *why);
}

/// The versions of what the study computes with: of the backends' libraries, of what connects the processes of a job,
/// and of the transports that its variants name.
std::vector<std::pair<std::string, std::string>> versions_of(const Study<Experiment>& study, const Job* job) {
  std::vector<std::pair<std::string, std::string>> versions = backend_versions();
  if (job != nullptr) versions.emplace_back("processes", job->name());
  for (const TransportType& transport : transport_types())
    if (transport.version != nullptr &&
        std::any_of(study.variants.begin(), study.variants.end(),
                    [&](const StudyVariant& member) { return member.root.transport == transport.name; }))
      versions.emplace_back(transport.name, transport.version().value_or(""));
  return versions;
}

/// Says how an interrupted run is continued.
void print_continuation(const RunCommand& command, const StudyVariant& interrupted, const Console& console) {
  console.err << (interrupted.root.train.save ? "to continue: " + continuing(command)
                                              : "nothing is saved: train.save is false")
              << "\n";
}

std::filesystem::path results_path(const RunCommand& command, const Study<Experiment>& study) {
  return command.out.empty() ? std::filesystem::path("results") / study.name : command.out;
}

/// Opens the folder, which no other run may have.
void open_results(const RunCommand& command, const std::filesystem::path& path, const std::string& experiment_json,
                  std::optional<ResultsFolder>& folder) {
  try {
    folder.emplace(path, experiment_json, command.resumes());
  } catch (const InputError& error) {
    if (restart_of_environment()) fail<RankFailed>("the job goes on without this process: {}", error.what());
    throw;
  }
  if (command.elastic) check_goes_on(path);
  if (command.elastic && !restart_of_environment()) forget_leader(path);
}

/// Removes what an earlier run has left, unless it is resumed: at once if a restart before the first step could take it
/// for this run's, and otherwise once the run begins.
void replace_existing(const RunCommand& command, ResultsFolder& folder) {
  if (command.resumes()) return;
  if (command.replace) folder.replace_checkpoints();
  if (command.elastic) folder.replace_earlier_run();
}

struct PreparedStudy {
  Study<Experiment> study;
  int preferred_ranks = 1;   // of the mesh in the file, where an elastic job has taken another one
  bool is_finished = false;  // when resuming: all steps of all variants have been done before
  std::string summary{};     // of a finished study, for rank 0's process
};

/// Reads the study and checks, on all processes together, that it can run. Rank 0's process gets the results folder.
PreparedStudy prepare_study(const RunCommand& command, Job* job, std::optional<ResultsFolder>& folder) {
  if (command.elastic) check_can_restart(job);
  std::optional<std::string> finished;
  Study<Experiment> study;
  int preferred_ranks = 1;
  // All processes use one type, whatever their machines are.
  const bool is_bf16_fast = broadcast_numbers(job, {is_bf16_fast_here() ? 1.0 : 0.0}).front() != 0;
  together(job, [&] {
    study = checked(read_study<Experiment>(command.file, command.sets), is_bf16_fast);
    if (command.elastic) preferred_ranks = choose_mesh(study, job->size());
    fit_to_job(study, job, command.elastic);
    if (command.automatic) place_automatically(study);
  });
  check_same_call(
      effective_json(study),
      fmt::format("--out \"{}\"{}{}{}{}", command.out.string(), command.resumes() ? " --resume=" + command.resume : "",
                  command.fresh_head ? " --fresh-head" : "", command.grow_head ? " --grow-head" : "",
                  command.elastic ? " --elastic" : ""),
      job);
  together(job, [&] {
    check_devices_available(study, job);
    // The resolved value is written, because the number of cores of a different machine would give different bits.
    for (StudyVariant& member : study.variants) member.root.threads = threads_of(member.root, job);
    if (job != nullptr && job->rank() > 0) return;
    const std::filesystem::path path = results_path(command, study);
    const std::string experiment_json = effective_json(study);
    open_results(command, path, experiment_json, folder);  // first, because a run under way has checkpoints, too
    check_existing_results(path, study, use_of_existing(command));
    replace_existing(command, *folder);
    if (command.resumes() && command.head() == SavedHead::kept)
      finished = finished_summary(path, study, experiment_json);
  });
  const bool is_finished = broadcast_numbers(job, {finished ? 1.0 : 0.0}).front() != 0;
  return {std::move(study), preferred_ranks, is_finished, finished.value_or("")};
}

/// Writes the results so far. A full disk does not end the study: the last write decides.
void write_if_due(ResultsFolder& folder, const RunResult& run, const Console& console) {
  try {
    folder.write_if_due(run);
  } catch (const DiskError& error) {
    console.err << fmt::format("{}: the results are written later\n", error.what()) << std::flush;
  }
}

/// Writes the results of a study that has ended. Returns why a disk did not take them.
std::optional<DiskError> finish(ResultsFolder& folder, const RunResult& run) {
  try {
    folder.finish(run);
    return {};
  } catch (const DiskError& error) {
    return error;
  }
}

/// Trains every variant of a file, on the processes of a job if there is one. Returns the exit code.
int run_command(const RunCommand& command, const CommandCall& call, Job* job) {
  const Console& console = call.console;
  std::optional<ResultsFolder> folder;  // rank 0's
  PreparedStudy prepared = prepare_study(command, job, folder);
  Study<Experiment>& study = prepared.study;
  const std::filesystem::path path = results_path(command, study);
  if (prepared.is_finished) {
    if (!folder) return 0;
    console.err << fmt::format(
        "all steps were done before: nothing is left to do, and the results stay as they are\nresults: {}\n",
        printable(path.string()));
    if (command.json) console.out << prepared.summary << std::flush;
    return 0;
  }
  if (folder) print_warnings(study, console);
  if (const std::optional<Restart> restart = restart_of_environment(); restart && folder)
    console.err << fmt::format("restart {} with {}: {}\n", restart->number,
                               counted(job->size(), "process", "processes"), restart->why);
  Progress progress(console.err, console.terminal);
  InterruptionSignals signals(interrupting_signals(study),
                              folder ? "the run ends after this step with a checkpoint" : nullptr);
  StageProfiles profiles;
  int failed_after = 0;  // the signal after which a variant failed within its step, so that the next one does not begin
  RunResult run;
  run.name = study.name;
  run.versions = versions_of(study, job);
  const auto finish_if_it_throws = [&](const auto& body) {
    try {
      body();
    } catch (...) {
      if (folder) finish(*folder, run);
      throw;
    }
  };
  for (StudyVariant& member : study.variants) {
    if (!run.variants.empty())
      finish_if_it_throws([&] {
        check_all_are_there(member.name, job);
        failed_after = signal_of(signals.interruption(), job);
      });
    if (failed_after != 0) break;
    progress.clear();
    console.err << fmt::format("{}: {} ({} of {}), {}, {}\n", study.name, member.name, run.variants.size() + 1,
                               study.variants.size(), counted(mesh_of(member.root).size(), "rank", "ranks"),
                               counted(member.root.train.steps, "step", "steps"))
                << std::flush;
    RunReporter reporter(member.name, member.root.train, command.resumes(), progress, folder ? &*folder : nullptr,
                         console);
    const RunSettings settings{.checkpoints = checkpoints_of_variant(path, member.name),
                               .identity = json_identity(),
                               .resume = command.resumes(),
                               .head = command.head(),
                               .job = job,
                               .profiles = &profiles,
                               .restart = restart_of_environment(),
                               .interruption = &signals.interruption(),
                               .observer = &reporter};
    finish_if_it_throws([&] {
      const auto run_once = [&] { return run_variant(member.root, member.name, settings); };
      run.variants.push_back(command.elastic ? run_or_restart(*job, member.root.elastic, ranks_of(member.root),
                                                              prepared.preferred_ranks, path, signals.interruption(),
                                                              call.all, run_once)
                                             : run_once());
    });
    if (folder) write_if_due(*folder, run, console);
    if (run.variants.back().status == VariantResult::Status::interrupted) break;
    // What failed because a process has ended would fail again.
    if (run.variants.back().status == VariantResult::Status::failed && job != nullptr && !job->is_whole()) break;
  }
  progress.clear();
  const std::optional<DiskError> unwritten = folder ? finish(*folder, run) : std::nullopt;
  if (!unwritten) console.err << fmt::format("results: {}\n", printable(path.string()));
  if (run.variants.back().status == VariantResult::Status::interrupted)
    print_continuation(command, study.variants[run.variants.size() - 1], console);
  const int code = print_results(run, command.json, console);
  if (unwritten) throw *unwritten;
  if (failed_after == 0) return code;
  if (folder)
    console.err << fmt::format("SIG{}: {} failed before the end of its step; later variants do not begin\n",
                               ::sigabbrev_np(failed_after), run.variants.back().name);
  return 128 + failed_after;
}

/// Leaves out the value of a flag that is given without one, which `add_flag` takes as a part of the name.
class WithoutFlagValues : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, is_positional);
    return name.substr(0, name.find('{'));
  }
};

}  // namespace

void add_run(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<RunCommand>();
  app.formatter(std::make_shared<WithoutFlagValues>());
  add_experiment_option(app, command->file);
  add_set_option(app, command->sets);
  app.add_flag("--json", command->json, "print the summary as JSON instead of the table");
  add_out_option(app, command->out, "results folder (default: results/NAME)").check(not_a_file);
  CLI::Option* const resume =
      app.add_flag(fmt::format("--resume{{{}}}", resume_always), command->resume,
                   "resume from the newest checkpoint in the results folder, on any number of ranks; --resume=auto "
                   "begins a new run where there is none")
          ->check(CLI::IsMember({resume_always, resume_if_possible}).description(""));
  app.add_flag("--force", command->replace,
               "replace the checkpoints of an earlier run, or another experiment's results, in the results folder")
      ->excludes(resume);
  CLI::Option* const fresh =
      app.add_flag("--fresh-head", command->fresh_head,
                   "with --resume: keep the backbone and begin a new head; classes and data may change")
          ->needs(resume);
  CLI::Option* const grow =
      app.add_flag(
             "--grow-head", command->grow_head,
             "with --resume: people are added to the head or dropped; the others keep their weights, by name where the "
             "data have names; data and head.classes may change")
          ->needs(resume)
          ->excludes(fresh);
  app.add_flag(
         "--elastic", command->elastic,
         "in a job connected by sockets: when processes end, the others go on from the newest checkpoint, on a mesh "
         "of elastic.meshes")
      ->excludes(fresh)
      ->excludes(grow);
  add_placements_option(app, command->automatic);
  app.callback([&call, command] {
    if (command->elastic)
      call.elastic_checksum = checksum_of_call(
          command->file, command->sets,
          fmt::format("--out {}{}", command->out.string(), command->automatic ? " --placements auto" : ""));
    try {
      if (const std::optional<Launch> launch = launch_of_environment();
          command->elastic && launch && launch->was_started_again)
        find_leader(results_path(*command, read_study<Experiment>(command->file, command->sets)),
                    [&](const std::string& what) { call.all << what << "\n"
                                                            << std::flush; });
      call.code = run_command(*command, call, call.join());
    } catch (const RankAssigned& found) {
      Restart restart = restart_of_environment().value_or(Restart());  // of which this one is a part
      restart.number = found.assignment().restarts;
      restart_as(found.assignment(), restart);
    }
  });
}

}  // namespace heddle
