#include "experiments/program/commands/run/train_study.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/config/json_identity.h"
#include "experiments/extensions/extension.h"
#include "experiments/program/interruption_signals.h"
#include "experiments/program/job/elastic.h"
#include "experiments/program/run_reporter.h"
#include "experiments/program/run_results.h"
#include "experiments/program/study_checks.h"
#include "experiments/program/study_input.h"
#include "experiments/training/ranks/job_agreement.h"
#include "experiments/training/ranks/world_options.h"
#include "experiments/training/run.h"
#include "framework/description/printable.h"
#include "framework/description/text.h"
#include "framework/error.h"
#include "parallel/transports/transports.h"

namespace heddle {

namespace {

std::set<int> interrupting_signals(const Study<Experiment>& study) {
  std::set<int> signals{SIGINT, SIGTERM};
  for (const StudyVariant& member : study.variants) {
    if (member.root.train.save_signal == SaveSignal::usr1) signals.insert(SIGUSR1);
    if (member.root.train.save_signal == SaveSignal::usr2) signals.insert(SIGUSR2);
  }
  return signals;
}

/// The command that continues an interrupted run.
std::string continuing(const RunOptions& options) {
  const char* const launcher = std::getenv("HEDDLE_LAUNCHER");  // as it was called
  std::string text = shell_word(launcher != nullptr ? launcher : "./heddle");
  for (const std::filesystem::path& extension : loaded_extensions())
    text += " --extension " + shell_word(extension.string());
  text += " run " + shell_word(options.file.string());
  for (const std::string& set : options.sets) text += " --set " + shell_word(set);
  if (!options.out.empty()) text += " --out " + shell_word(options.out.string());
  if (options.automatic) text += " --placements auto";
  if (options.elastic) text += " --elastic";
  // A job that is interrupted while it restarts may have no checkpoint yet.
  return text + (options.resume == RunOptions::resume_if_possible || options.elastic ? " --resume=auto" : " --resume");
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

/// A study under way. Every process of a job has one, and all do the same.
class StudyRun {
 public:
  StudyRun(const RunOptions& options, PreparedStudy& prepared, ResultsFolder* folder, const CommandCall& call, Job* job)
      : options_(options),
        study_(prepared.study),
        preferred_ranks_(prepared.preferred_ranks),
        folder_(folder),
        call_(call),
        console_(call.console),
        job_(job),
        progress_(console_.err, console_.terminal),
        signals_(interrupting_signals(study_),
                 folder != nullptr ? "the run ends after this step with a checkpoint" : nullptr) {
    run_.name = study_.name;
    run_.versions = versions_of(study_, job);
  }

  /// Returns the exit code.
  int run() {
    for (StudyVariant& variant : study_.variants) {
      if (!run_.variants.empty() && !may_begin(variant)) break;
      train(variant);
      if (last().status == VariantResult::Status::interrupted || has_lost_processes()) break;
      if (folder_ != nullptr && run_.variants.size() < study_.variants.size()) write_if_due();
    }
    progress_.clear();
    return end();
  }

 private:
  const VariantResult& last() const { return run_.variants.back(); }
  std::filesystem::path results() const { return options_.results(study_); }

  /// Whether the last variant has failed because a process has ended or does not respond: the next one would, too.
  bool has_lost_processes() const {
    return last().status == VariantResult::Status::failed && job_ != nullptr &&
           (!job_->is_whole() || job_->is_broken());
  }

  /// Whether the variant before it has left the job able to go on, and no signal asks it to end.
  bool may_begin(const StudyVariant& variant) {
    finish_if_it_throws([&] {
      check_all_are_there(variant.name, job_);
      failed_after_ = signal_of(signals_.interruption(), job_);
    });
    return failed_after_ == 0;
  }

  void train(StudyVariant& variant) {
    progress_.clear();
    console_.err << fmt::format("{}: {} ({} of {}), {}, {}\n", study_.name, variant.name, run_.variants.size() + 1,
                                study_.variants.size(), counted(ranks_of(variant.root), "rank", "ranks"),
                                counted(variant.root.train.steps, "step", "steps"))
                 << std::flush;
    RunReporter reporter(variant.name, variant.root.train, options_.resumes(), progress_, folder_, console_);
    const RunSettings settings{.checkpoints = checkpoints_of_variant(results(), variant.name),
                               .identity = json_identity(),
                               .resume = options_.resumes(),
                               .head = options_.head(),
                               .job = job_,
                               .profiles = &profiles_,
                               .restart = restart_of_environment(),
                               .interruption = &signals_.interruption(),
                               .observer = &reporter};
    const auto run_once = [&] { return run_variant(variant.root, variant.name, settings); };
    finish_if_it_throws([&] {
      run_.variants.push_back(options_.elastic ? run_or_restart(*job_, variant.root.elastic, ranks_of(variant.root),
                                                                preferred_ranks_, results(), signals_.interruption(),
                                                                call_.all, run_once)
                                               : run_once());
    });
  }

  /// The variants that have ended are in the results, and printed, also if the next one throws.
  template <class Body>
  void finish_if_it_throws(const Body& body) {
    try {
      body();
    } catch (...) {
      progress_.clear();
      if (!finish() && !run_.variants.empty()) {
        print_place();
        (void)print_results(run_, options_.json, console_);
      }
      throw;
    }
  }

  void print_place() const { console_.err << fmt::format("results: {}\n", printable(results().string())); }

  /// Writes the results so far. A full disk does not end the study: the last write decides.
  void write_if_due() {
    try {
      folder_->write_if_due(run_);
    } catch (const DiskError& error) {
      console_.err << fmt::format("{}: the results are written later\n", error.what()) << std::flush;
    }
  }

  /// Writes the results of a study that has ended. Returns why a disk did not take them.
  std::optional<DiskError> finish() {
    try {
      if (folder_ != nullptr) folder_->finish(run_);
      return {};
    } catch (const DiskError& error) {
      return error;
    }
  }

  /// Writes and prints the results. Returns the exit code.
  int end() {
    const std::optional<DiskError> unwritten = finish();
    if (!unwritten) print_place();
    if (last().status == VariantResult::Status::interrupted) print_continuation();
    const int code = print_results(run_, options_.json, console_);
    if (const std::size_t later = study_.variants.size() - run_.variants.size(); later > 0 && has_lost_processes())
      console_.err << fmt::format("{} not begin: the job lacks processes\n",
                                  counted(later, "later variant does", "later variants do"));
    if (unwritten) throw *unwritten;
    if (failed_after_ == 0) return code;
    if (folder_ != nullptr)
      console_.err << fmt::format("SIG{}: {} failed before the end of its step; later variants do not begin\n",
                                  ::sigabbrev_np(failed_after_), last().name);
    return 128 + failed_after_;
  }

  /// Says how an interrupted run is continued.
  void print_continuation() const {
    const StudyVariant& interrupted = study_.variants[run_.variants.size() - 1];
    console_.err << (interrupted.root.train.save ? "to continue: " + continuing(options_)
                                                 : "nothing is saved: train.save is false")
                 << "\n";
  }

  const RunOptions& options_;
  Study<Experiment>& study_;
  int preferred_ranks_;
  ResultsFolder* folder_;  // rank 0's
  const CommandCall& call_;
  const Console& console_;
  Job* job_;
  Progress progress_;
  InterruptionSignals signals_;
  StageProfiles profiles_;
  RunResult run_;
  /// The signal after which a variant failed within its step, so that the next one does not begin.
  int failed_after_ = 0;
};

}  // namespace

int train_study(const RunOptions& options, PreparedStudy& prepared, ResultsFolder* folder, const CommandCall& call,
                Job* job) {
  const Console& console = call.console;
  if (folder != nullptr) print_warnings(prepared.study, console);
  if (const std::optional<Restart> restart = restart_of_environment(); restart && folder != nullptr)
    console.err << fmt::format("restart {} with {}: {}\n", restart->number,
                               counted(job->size(), "process", "processes"), restart->why);
  return StudyRun(options, prepared, folder, call, job).run();
}

}  // namespace heddle
