#include "experiments/training/run.h"

#include <cstring>
#include <memory>
#include <utility>

#include "experiments/training/checkpoints/initial_weights.h"
#include "experiments/training/experiment_checks.h"
#include "experiments/training/planning/model_layout.h"
#include "experiments/training/prediction/pipeline_result.h"
#include "experiments/training/prediction/prediction.h"
#include "experiments/training/rank_run.h"
#include "experiments/training/ranks/gather_ranks.h"
#include "experiments/training/ranks/job_agreement.h"
#include "experiments/training/ranks/world_options.h"
#include "framework/description/describe.h"
#include "parallel/world.h"

namespace heddle {

namespace {

/// The result of a run that has not begun: a row for each rank, without measurements.
VariantResult empty_result(const Experiment& experiment, const std::string& name) {
  VariantResult result;
  result.name = name;
  result.batch = experiment.train.batch;
  result.micro_batches = experiment.train.micro_batches;
  result.device = name_of(experiment.device);
  result.clock = experiment.is_virtual_time() ? "virtual" : "wall";
  const Mesh mesh = mesh_of(experiment);
  for (std::size_t set = 0; set < experiment.heads(); ++set) {
    const HeadConfig& head = experiment.head_of(set);
    result.heads.push_back({.name = experiment.data_of(set).name,
                            .config = head,
                            .samples = experiment.shares().before(set, experiment.train.batch),
                            .ranks = mesh.size(head.class_axes()),
                            .copies = mesh.size(head.copy_axes())});
  }
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const Mesh::Coordinates at = mesh.coordinates(rank);
    RankResult row;
    row.rank = rank;
    row.coordinates = {{"dp", at.dp}, {"pp", at.pp}, {"tp", at.tp}};
    result.ranks.push_back(row);
  }
  return result;
}

/// While it exists, the loss of a process that has no rank in the run fails nothing.
class NeededProcesses {
 public:
  NeededProcesses(Job* job, int processes) : job_(job) {
    if (job_ != nullptr) job_->set_needed(processes);
  }
  ~NeededProcesses() {
    if (job_ != nullptr) job_->set_needed(job_->size());
  }
  NeededProcesses(const NeededProcesses&) = delete;
  NeededProcesses& operator=(const NeededProcesses&) = delete;

 private:
  Job* job_;
};

class VariantRun {
 public:
  VariantRun(const Experiment& experiment, const std::string& name, const RunSettings& settings)
      : experiment_(experiment),
        settings_(settings),
        observer_(settings.observer != nullptr ? *settings.observer : silent_),
        layer_profiles_(settings.profiles != nullptr ? *settings.profiles : own_profiles_),
        stage_profiles_(experiment.device == DeviceType::plan ? layer_profiles_ : profiles_of_this_run_),
        result_(empty_result(experiment, name)) {}

  VariantResult run() {
    if (settings_.job != nullptr) settings_.job->set_timeout(world_options(experiment_, settings_.job).timeout);
    together(settings_.job, [&] {
      check(experiment_);
      if (experiment_.device != DeviceType::plan) check_device(experiment_);
    });
    open_inputs();
    if (cuts_by_time()) profile_layers();
    const NeededProcesses needed(settings_.job, static_cast<int>(result_.ranks.size()));
    plan();
    together(settings_.job, [&] { predict_if_it_fits(); });
    run_all_ranks();
    if (settings_.job != nullptr) gather_ranks(result_, *settings_.job);
    if (leads()) report_notes();
    together(settings_.job, [&] { predict_again(); });
    return std::move(result_);
  }

 private:
  bool leads() const { return settings_.job == nullptr || settings_.job->rank() == 0; }
  bool cuts_by_time() const { return experiment_.mesh.pp > 1 && experiment_.model.stages.by == BalanceBy::time; }

  void report_notes() {
    for (const RankResult& rank : result_.ranks)
      for (const std::string& note : rank.notes) observer_.on_note(note);
    if (settings_.job == nullptr) return;
    for (int p = static_cast<int>(result_.ranks.size()); p < settings_.job->size(); ++p)
      if (const std::optional<std::string> why = settings_.job->why_lost(p))
        observer_.on_note(fmt::format("{}, and this variant does not need it", *why));
  }

  /// Opens the data sets, the model that takes their images, the evaluation sets and the file of weights.
  void open_inputs() {
    together(settings_.job, [&] {
      open_data();
      build_model();
      sets_ = open_sets(experiment_, *dataset_);
      if (reads_weights())
        weights_ =
            std::make_unique<InitialWeights>(*model_, experiment_.model.weights, experiment_.model.weights_strict);
    });
    const std::vector<std::string> notes = dataset_->notes(0);
    notes_reported_ = notes.size();
    if (leads())
      for (const std::string& note : notes) observer_.on_note(note);
    check_same_data(*dataset_, settings_.job);
  }

  /// InputError if a head has fewer classes than its data set, or if there is nothing to evaluate.
  void open_data() {
    dataset_ = settings_.dataset != nullptr ? settings_.dataset : open_datasets(experiment_);
    for (std::size_t set = 0; set < experiment_.heads(); ++set)
      if (const std::int64_t people = dataset_->set(set).classes(); experiment_.head_of(set).classes < people)
        fail<InputError>("{}.classes: expected at least the data's {} people, got {}", key_of(experiment_, "head", set),
                         people, experiment_.head_of(set).classes);
    if (experiment_.evaluate && experiment_.evaluation.sets.empty() && dataset_->size(Split::test) == 0)
      fail<InputError>(
          "evaluation: nothing to evaluate: the data have no test images, and evaluation.sets is empty; evaluation = "
          "null trains without it");
  }

  void build_model() {
    model_ = std::make_shared<ModelSpec>(model_of(experiment_, dataset_->image()));
    for (HeadResult& head : result_.heads) head.features = embedding_size(*model_);
  }

  /// Whether the training begins with a file of weights. On plan, the file need not be there.
  bool reads_weights() const {
    if (experiment_.model.weights.empty()) return false;
    if (experiment_.device == DeviceType::plan && !std::filesystem::exists(experiment_.model.weights)) return false;
    return !settings_.resume || !CheckpointFolder(settings_.checkpoints).latest();
  }

  /// Measures the layers on rank 0: all processes cut the model by its times.
  void profile_layers() {
    together(settings_.job, [&] {
      if (!leads()) return;
      observer_.on_status("measuring the layers");
      layer_seconds_ = profile_applications(experiment_, *dataset_, model_, layer_profiles_);
    });
    layer_seconds_ = broadcast_numbers(settings_.job, layer_seconds_);
  }

  void plan() {
    together(settings_.job, [&] {
      plan_ = plan_run(experiment_, model_, mesh_of(experiment_), layer_seconds_);
      if (experiment_.mesh.pp > 1) result_.pipeline = pipeline_of(experiment_, *plan_);
    });
  }

  /// Measures the stages and simulates a step with their costs.
  void predict() {
    const bool is_predictable = result_.pipeline || (experiment_.is_virtual_time() && result_.ranks.size() > 1);
    if (!leads() || !is_predictable || !experiment_.pipeline.predict || settings_.asks_bytes_only) return;
    observer_.on_status("measuring the stages");
    result_.predicted_seconds =
        predicted_seconds(experiment_, *plan_, profile_stages(experiment_, *dataset_, *plan_, stage_profiles_));
  }

  void predict_if_it_fits() {
    try {
      predict();
    } catch (const Error&) {
      // The run may not fit, or diverge, either, and says so; if it does not, predict_again says why there is no
      // prediction.
    }
  }

  /// After the run also from a second profile, because a machine's speed changes within minutes. The run does not
  /// depend on it.
  void predict_again() {
    try {
      if (result_.status == VariantResult::Status::ok) predict();
    } catch (const Error& error) {
      observer_.on_note(fmt::format(
          "{}: {}",
          result_.predicted_seconds ? "the stages were measured before the run only" : "the step time is not predicted",
          error.what()));
    }
  }

  void run_all_ranks() {
    WorldOptions options = world_options(experiment_, settings_.job);
    options.on_stall = [this](const std::string& why) { observer_.on_stall(why); };
    if (settings_.asks_bytes_only) {
      options.memory_budget.reset();
      options.rank_budgets.clear();
    }
    RunEnd end;
    const RunContext context{.experiment = experiment_,
                             .dataset = *dataset_,
                             .sets = sets_,
                             .plan = plan_,
                             .settings = settings_,
                             .observer = observer_,
                             .result = result_,
                             .weights = weights_.get(),
                             .notes_reported = notes_reported_,
                             .end = &end};
    try {
      run_ranks(options, [&](Rank& rank) { run_rank(context, rank); });
      if (const int signal = end.by_signal; signal != 0) {
        result_.status = VariantResult::Status::interrupted;
        result_.interrupted_by = signal;
        result_.error = fmt::format("by SIG{}", ::sigabbrev_np(signal));
      } else if (end.not_saved) {
        result_.status = VariantResult::Status::not_saved;
        if (leads()) result_.error = result_.lost_checkpoints.back().why;
      }
    } catch (const OutOfMemory& error) {
      result_.status = VariantResult::Status::out_of_memory;
      result_.error = error.what();
    } catch (const RankFailed& error) {
      result_.status = VariantResult::Status::failed;
      result_.error = error.what();
    } catch (const InputError& error) {
      if (!end.at_broken_image) throw;
      result_.status = VariantResult::Status::broken_image;
      result_.error = error.what();
    }
  }

  const Experiment& experiment_;
  const RunSettings& settings_;
  RunObserver silent_;
  RunObserver& observer_;
  StageProfiles own_profiles_;
  StageProfiles& layer_profiles_;
  // Profiles of an earlier variant are minutes old; on plan they are the same.
  StageProfiles profiles_of_this_run_;
  StageProfiles& stage_profiles_;
  std::shared_ptr<const Dataset> dataset_;
  std::size_t notes_reported_ = 0;
  std::vector<EvaluationSet> sets_;
  std::shared_ptr<const ModelSpec> model_;
  std::vector<double> layer_seconds_;
  std::unique_ptr<const InitialWeights> weights_;  // null: they are drawn, or in a checkpoint
  std::shared_ptr<const RunPlan> plan_;
  VariantResult result_;
};

}  // namespace

VariantResult run_variant(const Experiment& experiment, const std::string& name, const RunSettings& settings) {
  return VariantRun(experiment, name, settings).run();
}

}  // namespace heddle
