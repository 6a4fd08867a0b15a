#include "experiments/training/rank_run.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <optional>

#include "experiments/training/checkpoints/initial_weights.h"
#include "experiments/training/checkpoints/run_saver.h"
#include "experiments/training/evaluation/test_images.h"
#include "experiments/training/planning/step_bytes.h"
#include "experiments/training/ranks/replicas.h"
#include "experiments/training/ranks/restarts.h"
#include "experiments/training/run.h"
#include "experiments/training/trainer.h"
#include "framework/description/text.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

// A trace shows the structure of a step; the first steps also show the work that is done once.
constexpr std::int64_t traced_steps = 5;
// Plan simulates the first steps of a run and extrapolates the others from them: all steps are equal, once the
// optimizer and the kept statistics exist.
constexpr std::int64_t simulated_steps = 2;
// Where the number of sampled classes depends on the batch, steps differ, and more of them are simulated.
constexpr std::int64_t max_simulated_steps = 100;

/// Bytes between a rank and the others.
struct Traffic {
  std::int64_t sent = 0;
  std::int64_t received = 0;
};

class RankRun {
 public:
  RankRun(const RunContext& context, Rank& rank)
      : experiment_(context.experiment),
        dataset_(context.dataset),
        sets_(context.sets),
        plan_(context.plan),
        settings_(context.settings),
        observer_(context.observer),
        result_(context.result),
        rank_(rank),
        tracer_(std::make_shared<Tracer>(rank.clock, rank.device)),
        saver_(experiment_, settings_.checkpoints, settings_.identity, rank, observer_),
        weights_(context.weights),
        notes_reported_(context.notes_reported),
        end_(*context.end) {
    rank.world.add_hook(tracer_);
  }

  void run() {
    try {
      train_and_evaluate();
    } catch (const std::bad_alloc&) {
      report();
      fail<OutOfMemory>("rank {}: out of memory: the system has no memory for images, labels or other data of a batch",
                        rank_.index);
    } catch (...) {
      report();
      throw;
    }
    report();
  }

 private:
  void train_and_evaluate() {
    trainer_.emplace(experiment_, dataset_, rank_, *tracer_, plan_);
    const std::int64_t first = begin();
    const std::int64_t end =
        has_data() ? experiment_.train.steps : std::min(experiment_.train.steps, steps_to_simulate());
    heed_interruption(true);
    for (std::int64_t step = first; step < end; ++step) {
      tracer_->set_recording(step - first < traced_steps);
      train(step);
      if (end_.by_signal != 0) return end_by_signal(step + 1);
    }
    tracer_->set_recording(false);
    rank_.device.backend().synchronize();  // a failure of the last step is reported before it counts as done
    if (leads() && rank_.size > 1 && end > first && has_step_bytes(experiment_, *plan_->model))
      result_.sent_in_step = SentInStep{sent_in_steps_ / (end - first), step_bytes(experiment_, *plan_)};
    if (!has_data()) extrapolate_steps(end);
    if (first < experiment_.train.steps && !experiment_.train.forward_only) save_last();
    heed_interruption(false);
    compare_interruptions();
    if (end_.by_signal != 0) return end_by_signal(end);
    if (experiment_.evaluate) evaluate();
    if (has_data()) own().reserved_bytes = rank_.device.backend().reserved_bytes();
    own().checkpoint_copy = saver_.copy_bytes(*trainer_);
  }

  std::int64_t steps_to_simulate() const { return sample_varies(experiment_) ? max_simulated_steps : simulated_steps; }

  /// Counts the steps from `end` on, which plan does not simulate: steps with a loss count as the first step, the
  /// others as the last one that was simulated.
  void extrapolate_steps(std::int64_t end) {
    const auto losses_before = [every = experiment_.head.loss_every](std::int64_t step) {
      return (step + every - 1) / every;
    };
    const std::int64_t others = experiment_.train.steps - end;
    const std::int64_t with_loss = losses_before(experiment_.train.steps) - losses_before(end);
    const auto of_all = [&](std::int64_t Traffic::*bytes) {
      return with_loss * (in_first_step_.*bytes) + (others - with_loss) * (in_last_step_.*bytes);
    };
    extrapolated_ = {of_all(&Traffic::sent), of_all(&Traffic::received)};
    extrapolated_busy_ = own().busy_in_step.back() * static_cast<double>(others);
    if (leads()) result_.flops_per_step = rank_.device.backend().flops() / end;
  }

  bool leads() const { return rank_.index == 0; }
  RankResult& own() { return result_.ranks[static_cast<std::size_t>(rank_.index)]; }
  bool has_data() const { return rank_.device.has_data(); }
  Traffic traffic() const { return {rank_.bytes.sent_bytes(), rank_.bytes.received_bytes()}; }

  std::int64_t begin() {
    std::int64_t first = 0;
    if (settings_.resume) {
      first = saver_.newest().latest().value_or(0);
      // Another machine may not see the newest folder yet.
      if (has_data()) first = static_cast<std::int64_t>(broadcast_from_rank_0(static_cast<double>(first)));
      if (first > experiment_.train.steps)
        fail<InputError>("{}: its newest checkpoint is after step {}, past train.steps = {}",
                         settings_.checkpoints.string(), first, experiment_.train.steps);
      if (first > 0) load(first);
      if (leads() && first > 0 && first == experiment_.train.steps)
        observer_.on_note(fmt::format(
            "all {} steps were done: nothing is trained, and the figures of memory and bytes are those of this run",
            first));
      saver_.resume(first, experiment_.evaluation.keep_best ? accuracy_on() : "");
    } else if (leads() && has_data()) {
      // Checkpoints that a resumed run finds later must be of this run; the other ranks save only after a barrier with
      // this rank.
      saver_.clear();
    }
    if (first == 0 && weights_ != nullptr && has_data()) load_weights();
    if (leads()) begin_result(result_, observer_.on_begin(first), settings_.restart, first, rank_.size);
    return first;
  }

  void load(std::int64_t steps_done) {
    const std::string note = saver_.newest().load(*trainer_, steps_done, settings_.head);
    if (!leads()) return;
    for (std::size_t set = 0; settings_.head == SavedHead::fresh && set < experiment_.heads(); ++set)
      observer_.on_note(fmt::format("begins a new head of {} classes", experiment_.head_of(set).classes));
    if (!note.empty()) observer_.on_note(note);
  }

  void load_weights() {
    weights_->load(*trainer_);
    if (leads()) observer_.on_note(weights_->report());
  }

  void update(StepRecord& record) {
    record.loss = trainer_->compute_gradients(record.step);
    if (trainer_->has_broken_image()) {
      trainer_->drop_step();
      stop_at_broken_image(record.step);
    }
    compare_interruptions();
    if (const std::vector<double>& losses = trainer_->losses(); losses.size() > 1)
      for (std::size_t head = 0; head < losses.size(); ++head)
        record.losses.emplace_back(experiment_.data_of(head).name, losses[head]);
    // Stops before the weights, and an earlier checkpoint, are lost.
    if (record.loss && !std::isfinite(*record.loss))
      fail<RankFailed>("step {}: the loss is {}: the training has diverged", record.step, *record.loss);
    const StepUpdate update = trainer_->apply_gradients(record.step);
    record.learning_rate = update.learning_rate;
    if (has_data()) record.gradient_norm = update.gradient_norm;
    record.loss_scale = update.loss_scale;
    record.is_skipped = update.is_skipped;
  }

  /// Ends the run with the InputError of the image, after the work of these steps is saved.
  [[noreturn]] void stop_at_broken_image(std::int64_t steps_done) {
    if (steps_done > 0 && !experiment_.train.forward_only) save_at_end(steps_done);
    if (leads() && steps_done > 0 && saver_.saved_after() == steps_done)
      observer_.on_note(fmt::format(
          "the checkpoint after {} is saved: repair what the error names or, if it is a training image of a "
          ".rec, set data.on_broken to skip, and continue with --resume",
          counted(steps_done, "step", "steps")));
    end_.at_broken_image = true;
    rank_.world.barrier().wait();  // every rank has saved
    trainer_->end_at_broken_image();
  }

  bool is_interruptible() const {
    return settings_.interruption != nullptr && has_data() && !experiment_.is_virtual_time();
  }

  void heed_interruption(bool is_heeded) {
    if (is_interruptible() && (leads() || settings_.job != nullptr)) settings_.interruption->is_heeded = is_heeded;
  }

  /// All ranks learn whether one of them is asked to end the run: here, where they have just waited for each other.
  void compare_interruptions() {
    if (!is_interruptible()) return;
    const int signal = settings_.interruption->signal;
    const int largest = rank_.size > 1 ? rank_.world.max_over_ranks(signal) : signal;
    if (largest != 0) end_.by_signal = largest;
  }

  /// Saves the work of these steps.
  void end_by_signal(std::int64_t steps_done) {
    tracer_->set_recording(false);
    if (!experiment_.train.forward_only) save_at_end(steps_done);
    rank_.world.barrier().wait();  // every rank has saved
    heed_interruption(false);
  }

  void train(std::int64_t step) {
    const double start = rank_.clock.now();
    const double busy_before = rank_.clock.busy_seconds();
    const double waited_before = trainer_->images().waited_seconds();
    const Traffic before = traffic();
    StepRecord record{.step = step, .save_wait = saver_.take_wait()};
    if (experiment_.train.forward_only) {
      trainer_->forward(step);
      compare_interruptions();
    } else {
      update(record);
    }
    in_last_step_ = {traffic().sent - before.sent, traffic().received - before.received};
    if (own().busy_in_step.empty()) in_first_step_ = in_last_step_;
    sent_in_steps_ += in_last_step_.sent;
    record.seconds = rank_.clock.now() - start;
    if (has_data()) record.loader_wait = trainer_->images().waited_seconds() - waited_before;
    own().add_busy_step(rank_.clock.busy_seconds() - busy_before);
    const std::int64_t done = step + 1;
    if (has_data() && evaluates_after(done)) {
      if (end_.by_signal != 0 && !experiment_.train.forward_only) save_at_end(done);  // the evaluation may take long
      record.accuracies = evaluate_step(done);
      compare_interruptions();
    }
    if (leads()) {
      if (own().busy_in_step.size() == 1) record.restarts = end_restart(result_, settings_.restart.has_value());
      result_.steps.push_back(record);
      observer_.on_step(record);
    }
    report_notes();
    saver_.after_step(*trainer_, done, record.seconds);
    if (trainer_->has_broken_image()) stop_at_broken_image(done);  // of an evaluation
    if (experiment_.train.forward_only) return;
    if (const std::int64_t every = experiment_.train.check_replicas; every > 0 && done % every == 0)
      check_replicas(*trainer_, step);
    if (experiment_.train.save_every > 0 && done % experiment_.train.save_every == 0 && saver_.saved_after() != done)
      saver_.save(*trainer_, done, false);
  }

  /// Saves the work of these steps unless it is saved.
  void save_at_end(std::int64_t steps_done) {
    saver_.finish();
    if (saver_.saved_after() < steps_done && !saver_.has_lost_newest(steps_done))
      saver_.save(*trainer_, steps_done, true);
  }

  void save_last() {
    const std::int64_t steps = experiment_.train.steps;
    if (!saver_.saves()) {
      trainer_->catch_up_all();
      return trainer_->check_finite(steps - 1);
    }
    save_at_end(steps);
    end_.not_saved = saver_.saved_after() != steps;
  }

  bool evaluates_after(std::int64_t steps_done) const {
    const EvaluationConfig& config = experiment_.evaluation;
    return experiment_.evaluate && config.every > 0 && steps_done % config.every == 0;
  }

  /// The accuracies on the sets, on rank 0; the checkpoint is kept if that on the first one is the best so far.
  std::vector<std::pair<std::string, double>> evaluate_step(std::int64_t steps_done) {
    if (leads()) observer_.on_status("evaluating");
    evaluated_sets_ = evaluate_sets(experiment_.evaluation, sets_, *trainer_);
    if (trainer_->has_broken_image()) return {};
    evaluated_after_ = steps_done;
    std::vector<std::pair<std::string, double>> accuracies;
    for (const EvaluatedSet& set : evaluated_sets_) accuracies.emplace_back(set.name, set.accuracy());
    if (experiment_.evaluation.keep_best) keep_if_best(steps_done);
    return accuracies;
  }

  void keep_if_best(std::int64_t steps_done) {
    const double accuracy = broadcast_from_rank_0(leads() ? evaluated_sets_.front().accuracy() : 0);
    saver_.save_if_best(*trainer_, steps_done, accuracy, accuracy_on());
  }

  /// What the accuracy of a kept checkpoint is called within it: another first set is another measure.
  std::string accuracy_on() const { return "accuracy on " + sets_.front().name; }

  /// Rank 0's number, on all ranks.
  double broadcast_from_rank_0(double value) {
    Tensor shared = Tensor::empty(rank_.device, {1}, DType::f64);
    shared.load_bytes(std::as_bytes(std::span(&value, 1)));
    shared = rank_.world.broadcast(shared, 0);
    return shared.item();
  }

  void evaluate() {
    if (leads()) observer_.on_status("evaluating");
    Evaluation evaluation;
    if (dataset_.size(Split::test) > 0) evaluate_test_images(evaluation, *trainer_);
    if (trainer_->has_broken_image()) stop_at_broken_image(experiment_.train.steps);
    if (evaluated_after_ != experiment_.train.steps) {
      const Traffic before = traffic();
      evaluated_sets_ = evaluate_sets(experiment_.evaluation, sets_, *trainer_);
      if (trainer_->has_broken_image()) stop_at_broken_image(experiment_.train.steps);
      if (!has_data()) extrapolate_evaluations(before);
      if (has_data() && experiment_.evaluation.keep_best) keep_if_best(experiment_.train.steps);
    }
    evaluation.sets = std::move(evaluated_sets_);
    evaluation.best = saver_.best();
    evaluation.is_averaged = experiment_.train.averages_weights && !experiment_.train.forward_only;
    if (leads() && has_data()) result_.evaluation = std::move(evaluation);
  }

  /// On plan the sets are embedded once; all other evaluations of the run count as this one, which began with the
  /// traffic `before`.
  void extrapolate_evaluations(const Traffic& before) {
    const std::int64_t every = experiment_.evaluation.every;
    const std::int64_t steps = experiment_.train.steps;
    const std::int64_t others = every > 0 ? (steps - 1) / every : 0;
    extrapolated_.sent += others * (traffic().sent - before.sent);
    extrapolated_.received += others * (traffic().received - before.received);
  }

  /// Reports what the data set has found since the last report. Ranks of one process share it, and the first one
  /// reports.
  void report_notes() {
    if (!leads() && settings_.job == nullptr) return;
    for (std::string& note : dataset_.notes(notes_reported_)) {
      ++notes_reported_;
      add_note(std::move(note));
    }
  }
  void add_note(std::string note) {
    if (leads())
      observer_.on_note(note);
    else
      own().notes.push_back(fmt::format("rank {}: {}", rank_.index, note));
  }

  void report() {
    report_notes();
    if (const std::int64_t broken = dataset_.broken_images(); broken > 0 && (leads() || settings_.job != nullptr))
      add_note(
          counted(broken, "image that could not be used was replaced", "images that could not be used were replaced"));
    if (leads()) {
      result_.save_wait = saver_.waited_seconds();
      result_.lost_checkpoints = saver_.lost();
    }
    own().peak = rank_.device.meter().peak();
    own().peak_offloaded = rank_.device.meter().peak_offloaded();
    own().sent_bytes = rank_.bytes.sent_bytes() + extrapolated_.sent;
    own().received_bytes = rank_.bytes.received_bytes() + extrapolated_.received;
    own().busy_seconds = rank_.clock.busy_seconds() + extrapolated_busy_;
    own().trace = tracer_->take_spans();
    own().convolutions = rank_.device.backend().convolution().chosen_convolutions();
  }

  const Experiment& experiment_;
  const Dataset& dataset_;
  const std::vector<EvaluationSet>& sets_;
  std::shared_ptr<const RunPlan> plan_;
  const RunSettings& settings_;
  RunObserver& observer_;
  VariantResult& result_;  // each rank writes its own row, rank 0 the rest
  Rank& rank_;
  std::shared_ptr<Tracer> tracer_;
  std::optional<Trainer> trainer_;  // made within run, so that its memory is reported also when it runs out of memory
  RunSaver saver_;
  std::vector<EvaluatedSet> evaluated_sets_;  // rank 0's
  std::int64_t evaluated_after_ = 0;          // steps
  const InitialWeights* weights_;
  std::size_t notes_reported_;
  RunEnd& end_;
  std::int64_t sent_in_steps_ = 0;
  Traffic in_first_step_;
  Traffic in_last_step_;
  // What plan adds for the steps and evaluations that it does not simulate.
  Traffic extrapolated_;
  double extrapolated_busy_ = 0;  // seconds
};

}  // namespace

void run_rank(const RunContext& context, Rank& rank) {
  RankRun(context, rank).run();
}

}  // namespace heddle
