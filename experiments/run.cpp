#include "experiments/run.h"

#include <chrono>
#include <cmath>
#include <optional>

#include "experiments/checkpoint.h"
#include "experiments/embed.h"
#include "experiments/job.h"
#include "experiments/prediction.h"
#include "experiments/results/gather_ranks.h"
#include "experiments/trainer.h"
#include "framework/describe.h"
#include "framework/device.h"
#include "layers/stage_cut.h"
#include "parallel/pipeline/simulation.h"
#include "parallel/world.h"

namespace heddle {

namespace {

// A trace shows the shape of a step; the first ones also show what is built once.
constexpr std::int64_t traced_steps = 5;
// On plan one step is like another, once the optimizer and the kept statistics are there.
constexpr std::int64_t planned_steps = 2;
// But for samples of the classes whose size depends on the batch.
constexpr std::int64_t most_planned_steps = 100;

/// Bytes between a rank and the others.
struct Traffic {
  std::int64_t sent = 0;
  std::int64_t received = 0;
};

/// One rank's part of a run.
class RankRun {
 public:
  RankRun(const Experiment& experiment, const Dataset& dataset, std::shared_ptr<const RunPlan> plan,
          const RunSettings& settings, VariantResult& result, Rank& rank, const std::shared_ptr<Tracer>& tracer)
      : experiment_(experiment),
        plan_(std::move(plan)),
        settings_(settings),
        result_(result),
        rank_(rank),
        dataset_(dataset),
        tracer_(*tracer),
        checkpoints_(settings.checkpoints) {
    rank.world.add_hook(tracer);
  }

  void run() {
    try {
      train_and_evaluate();
    } catch (...) {
      report();
      throw;
    }
    report();
  }

 private:
  void train_and_evaluate() {
    trainer_.emplace(experiment_, dataset_, rank_, tracer_, plan_);
    const std::int64_t first = begin();
    const std::int64_t end = has_data() ? experiment_.train.steps : std::min(experiment_.train.steps, walked_steps());
    for (std::int64_t step = first; step < end; ++step) {
      tracer_.set_recording(step - first < traced_steps);
      train(step);
    }
    tracer_.set_recording(false);
    rank_.device.backend().synchronize();  // what went wrong in the last step is told before it counts as done
    if (leads() && rank_.size > 1 && end > first && says_what_it_sends())
      result_.sent_in_step = SentInStep{sent_in_steps_ / (end - first), step_bytes(experiment_, *plan_)};
    if (!has_data()) count_unwalked(end);
    const bool saved_last =
        experiment_.train.save_every > 0 && experiment_.train.steps % experiment_.train.save_every == 0;
    const bool has_learned = first < experiment_.train.steps && !experiment_.train.forward_only;
    if (has_learned && !saves()) trainer_->check_finite(experiment_.train.steps - 1);
    if (has_learned && !saved_last) save(experiment_.train.steps);
    if (experiment_.evaluate) evaluate();
    if (has_data()) own().reserved_bytes = rank_.device.backend().reserved_bytes();
  }

  /// Whether the number of classes that a rank samples changes from step to step.
  bool sample_varies() const {
    const HeadConfig& head = experiment_.head;
    const std::int64_t ranks = rank_.mesh.size(head.class_axes());
    const SampleShape shape{head.classes, head.sample.shards_over(ranks), head.sample.rate};
    return head.samples() && varies_in_size(shape, ranks, experiment_.train.batch);
  }
  std::int64_t walked_steps() const { return sample_varies() ? most_planned_steps : planned_steps; }

  /// Of the steps from `end` on those with a loss are like the first one, the others like the last that was walked.
  void count_unwalked(std::int64_t end) {
    const auto losses_before = [every = experiment_.head.loss_every](std::int64_t step) {
      return (step + every - 1) / every;
    };
    const std::int64_t others = experiment_.train.steps - end;
    const std::int64_t with_loss = losses_before(experiment_.train.steps) - losses_before(end);
    const auto of_all = [&](std::int64_t Traffic::*bytes) {
      return with_loss * (in_first_step_.*bytes) + (others - with_loss) * (in_last_step_.*bytes);
    };
    unwalked_ = {of_all(&Traffic::sent), of_all(&Traffic::received)};
    unwalked_busy_ = own().busy_in_step.back() * static_cast<double>(others);
    if (leads()) result_.flops_per_step = rank_.device.backend().flops() / end;
  }

  /// The formula knows training steps that compute everything once, the loss too, and that send as much as each other.
  bool says_what_it_sends() const {
    const bool sends_sample = rank_.mesh.size(experiment_.head.copy_axes()) > 1;
    if (sends_sample && sample_varies()) return false;
    return !experiment_.train.forward_only && experiment_.pipeline.recompute == Recompute::never &&
           experiment_.head.loss_every == 1;
  }
  bool leads() const { return rank_.index == 0; }
  RankResult& own() { return result_.ranks[static_cast<std::size_t>(rank_.index)]; }
  bool has_data() const { return rank_.device.has_data(); }

  std::int64_t begin() {
    std::int64_t first = 0;
    if (settings_.resume) {
      first = checkpoints_.latest().value_or(0);
      if (first > experiment_.train.steps)
        fail<InputError>("{}: its newest checkpoint is after step {}, past train.steps = {}",
                         settings_.checkpoints.string(), first, experiment_.train.steps);
      if (first > 0) load(first);
    } else if (leads() && has_data()) {
      // What a later --resume finds must be of this run; the others save only after a barrier with this rank.
      checkpoints_.clear();
    }
    if (leads()) {
      result_.first_step = first;
      result_.steps = settings_.on_begin(first);
    }
    return first;
  }

  void load(std::int64_t steps_done) {
    const SavedHead head = settings_.fresh_head ? SavedHead::left : SavedHead::kept;
    const std::string note = checkpoints_.load(*trainer_, steps_done, head);
    if (!leads()) return;
    if (settings_.fresh_head)
      settings_.on_note(fmt::format("begins a new head of {} classes", experiment_.head.classes));
    if (!note.empty()) settings_.on_note(note);
  }

  void update(StepRecord& record) {
    record.loss = trainer_->compute_gradients(record.step);
    // Stopped before the weights and an earlier checkpoint are lost to it.
    if (record.loss && !std::isfinite(*record.loss))
      fail<RankFailed>("step {}: the loss is {}: the training has diverged", record.step, *record.loss);
    const Trainer::Update update = trainer_->apply_gradients(record.step);
    record.learning_rate = update.learning_rate;
    if (has_data()) record.gradient_norm = update.gradient_norm;
    record.loss_scale = update.loss_scale;
    record.is_skipped = update.is_skipped;
  }

  void train(std::int64_t step) {
    const double start = rank_.clock.now();
    const double busy_before = rank_.clock.busy_seconds();
    const Traffic before{rank_.bytes.sent_bytes(), rank_.bytes.received_bytes()};
    StepRecord record{.step = step};
    if (experiment_.train.forward_only)
      trainer_->forward(step);
    else
      update(record);
    in_last_step_ = {rank_.bytes.sent_bytes() - before.sent, rank_.bytes.received_bytes() - before.received};
    if (own().busy_in_step.empty()) in_first_step_ = in_last_step_;
    sent_in_steps_ += in_last_step_.sent;
    record.seconds = rank_.clock.now() - start;
    own().busy_in_step.push_back(rank_.clock.busy_seconds() - busy_before);
    if (leads()) {
      result_.steps.push_back(record);
      settings_.on_step(record);
    }
    const std::int64_t done = step + 1;
    if (experiment_.train.forward_only) return;
    if (experiment_.train.save_every > 0 && done % experiment_.train.save_every == 0) save(done);
  }

  bool saves() const { return experiment_.train.save && !settings_.checkpoints.empty() && has_data(); }

  void save(std::int64_t steps_done) {
    if (!saves()) return;
    if (leads()) settings_.on_status("saving");
    trainer_->check_finite(steps_done - 1);
    rank_.world.barrier().wait();  // nothing is written where one rank's state is not finite
    checkpoints_.save(*trainer_, steps_done);
  }

  void evaluate() {
    if (leads()) settings_.on_status("evaluating");
    const auto gallery = embed_split(experiment_.evaluation, dataset_, Split::train, *trainer_);
    const auto test = embed_split(experiment_.evaluation, dataset_, Split::test, *trainer_);
    if (!leads() || !has_data()) return;
    Evaluation evaluation;
    evaluation.rank1 = rank1(gallery.view(), test.view());
    evaluation.verification = verification(test.view(), {.pairs = experiment_.evaluation.pairs}, rank_.key);
    result_.evaluation = evaluation;
  }

  void report() {
    own().peak = rank_.device.meter().peak();
    own().sent_bytes = rank_.bytes.sent_bytes() + unwalked_.sent;
    own().received_bytes = rank_.bytes.received_bytes() + unwalked_.received;
    own().busy_seconds = rank_.clock.busy_seconds() + unwalked_busy_;
    own().trace = tracer_.take_spans();
    own().convolutions = rank_.device.backend().convolution().chosen_convolutions();
  }

  const Experiment& experiment_;
  std::shared_ptr<const RunPlan> plan_;
  const RunSettings& settings_;
  VariantResult& result_;  // each rank writes its own row, rank 0 the rest
  Rank& rank_;
  const Dataset& dataset_;
  Tracer& tracer_;
  std::optional<Trainer> trainer_;  // made within run: what it holds when memory ends is reported too
  CheckpointFolder checkpoints_;
  std::int64_t sent_in_steps_ = 0;
  Traffic in_first_step_;
  Traffic in_last_step_;
  Traffic unwalked_;  // of the steps that plan does not walk
  double unwalked_busy_ = 0;
};

VariantResult empty_result(const Experiment& experiment, const std::string& name) {
  VariantResult result;
  result.name = name;
  result.batch = experiment.train.batch;
  result.micro_batches = experiment.train.micro_batches;
  result.device = name_of(experiment.device);
  result.clock = experiment.is_virtual_time() ? "virtual" : "wall";
  const Mesh mesh = mesh_of(experiment);
  result.head = {.config = experiment.head,
                 .ranks = mesh.size(experiment.head.class_axes()),
                 .copies = mesh.size(experiment.head.copy_axes())};
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const Mesh::Coordinates at = mesh.coordinates(rank);
    RankResult row;
    row.rank = rank;
    row.coordinates = {{"dp", at.dp}, {"pp", at.pp}, {"tp", at.tp}};
    result.ranks.push_back(row);
  }
  return result;
}

PipelineResult pipeline_of(const Experiment& experiment, const RunPlan& plan) {
  const bool forward_only = experiment.train.forward_only;
  PipelineResult result{.schedule_name = experiment.pipeline.schedule,
                        .recompute = forward_only ? "" : std::string(name_of(experiment.pipeline.recompute)),
                        .stages = plan.stages(),
                        .schedule = (forward_only ? plan.forward : plan.training)->schedule};
  result.ideal_speedup = ideal_speedup(result.schedule, experiment.pipeline.recompute);
  if (!forward_only) {
    KeptMicroBatches kept = kept_micro_batches(result.schedule);
    result.kept_micro_batches = std::move(kept.values);
    result.kept_inputs = std::move(kept.inputs);
  }
  for (int stage = 0; stage < plan.stages(); ++stage)
    result.stage_begins.push_back(plan.model->applications()[static_cast<std::size_t>(plan.range(stage).begin)].name);
  const ValueForms forms(*plan.model, *plan.placements);
  const std::int64_t samples = shard(experiment.train.batch, experiment.train.micro_batches, 0).size;
  for (int rank = 0; rank < result.schedule.size(); ++rank) {
    int last = 0;
    for (int stage = 0; stage < plan.stages(); ++stage)
      if (plan.rank_of()[static_cast<std::size_t>(stage)] == rank) last = stage;
    std::string made;
    for (const std::size_t form : forms.crossing(static_cast<int>(plan.range(last).end()))) {
      if (!made.empty()) made += ' ';
      made += to_string(experiment.precision().activations, plan.model->shape(forms.all()[form].value, samples));
    }
    result.outputs.push_back(made);
  }
  return result;
}

}  // namespace

WorldOptions world_options(const Experiment& experiment, Processes* job) {
  WorldOptions options{.mesh = mesh_of(experiment),
                       .backend = std::string(name_of(experiment.device)),
                       .transport = std::string(name_of(experiment.transport)),
                       .processes = job,
                       .key = {static_cast<std::uint64_t>(experiment.seed)},
                       .clock = {.is_virtual = experiment.clock == ClockType::virtual_time,
                                 .links = experiment.links,
                                 .speeds = experiment.ranks.speed,
                                 .jitter = experiment.ranks.jitter},
                       .threads = static_cast<int>(experiment.threads),
                       .planned = std::string(name_of(experiment.planned)),
                       .profile = experiment.profile,
                       .winograd = experiment.winograd,
                       .tf32 = experiment.tf32};
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(experiment.timeout * 1000));
  if (experiment.memory_budget > 0) options.memory_budget = experiment.memory_budget;
  if (experiment.device == DeviceType::plan) {
    // The bytes are those of a run with its own clock and threads; the time is always the model's.
    options.threads = threads_per_rank(options);
    options.clock.is_virtual = true;
    // Whoever carries them, bytes are the same; without a job there are no processes to be planned on.
    if (job == nullptr) options.transport = "threads";
  }
  return options;
}

int threads_of(const Experiment& experiment, Processes* job) {
  return threads_per_rank(world_options(experiment, job));
}

int ranks_of(const Experiment& experiment) {
  return world_options(experiment, nullptr).mesh.size();
}

VariantResult run_variant(const Experiment& experiment, const std::string& name, const RunSettings& settings) {
  const RandomKey key{static_cast<std::uint64_t>(experiment.seed)};
  const bool leads = settings.job == nullptr || settings.job->rank() == 0;
  StageProfiles none;
  StageProfiles& profiles = settings.profiles != nullptr ? *settings.profiles : none;
  std::shared_ptr<const Dataset> dataset = settings.dataset;
  std::shared_ptr<const ModelDescription> model;
  std::vector<double> seconds;  // of each layer
  const bool cuts_by_time = experiment.mesh.pp > 1 && experiment.model.stages.by == StagesBy::time;
  together(settings.job, [&] {
    if (dataset == nullptr) dataset = make_dataset(experiment.data, key);
    if (experiment.head.classes < dataset->classes())
      fail<InputError>("head.classes: expected at least the data's {} identities, got {}", dataset->classes(),
                       experiment.head.classes);
    model = std::make_shared<ModelDescription>(make_model(experiment.model, dataset->image()));
    if (!leads || !cuts_by_time) return;
    settings.on_status("measuring the layers");
    seconds = profile_applications(experiment, *dataset, model, profiles);
  });
  check_same_data(*dataset, settings.job);
  if (cuts_by_time) seconds = shared(settings.job, seconds);
  std::shared_ptr<const RunPlan> plan;
  VariantResult result = empty_result(experiment, name);
  result.head.features = embedding_size(*model);
  // What was measured for another variant was measured minutes ago; on plan it is the same.
  StageProfiles of_this_run;
  StageProfiles& stages = experiment.device == DeviceType::plan ? profiles : of_this_run;
  const auto predict = [&] {
    if (!leads || !result.pipeline || settings.asks_bytes_only) return;
    settings.on_status("measuring the stages");
    result.pipeline->predicted_seconds =
        predicted_seconds(experiment, *plan, profile_stages(experiment, *dataset, *plan, stages));
  };
  together(settings.job, [&] {
    plan = plan_run(experiment, model, mesh_of(experiment), seconds);
    if (experiment.mesh.pp > 1) result.pipeline = pipeline_of(experiment, *plan);
    predict();
  });
  WorldOptions options = world_options(experiment, settings.job);
  options.on_stall = settings.on_stall;
  if (settings.asks_bytes_only) options.memory_budget.reset();

  try {
    run_ranks(options, [&](Rank& rank) {
      RankRun(experiment, *dataset, plan, settings, result, rank, std::make_shared<Tracer>(rank.clock, rank.device))
          .run();
    });
  } catch (const OutOfMemory& error) {
    result.status = VariantResult::Status::out_of_memory;
    result.error = error.what();
  } catch (const RankFailed& error) {
    result.status = VariantResult::Status::failed;
    result.error = error.what();
  }
  if (settings.job != nullptr) gather_ranks(result, *settings.job);
  together(settings.job, [&] {
    // From a profile after the run, too: a machine's speed changes within minutes. The run is done without it.
    try {
      if (result.status == VariantResult::Status::ok) predict();
    } catch (const Error& error) {
      settings.on_note(fmt::format("the stages were measured before the run only: {}", error.what()));
    }
  });
  return result;
}

}  // namespace heddle
