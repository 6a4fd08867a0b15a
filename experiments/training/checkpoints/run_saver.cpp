#include "experiments/training/checkpoints/run_saver.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "experiments/training/ranks/replicas.h"
#include "framework/description/text.h"

namespace heddle {

RunSaver::RunSaver(const Experiment& experiment, const std::filesystem::path& folder,
                   const ExperimentIdentity& identity, Rank& rank, RunObserver& observer)
    : experiment_(experiment),
      folder_(folder),
      newest_(folder, identity),
      best_folder_(folder.empty() ? "" : folder / "best", identity),
      rank_(rank),
      observer_(observer),
      writer_(rank) {}

bool RunSaver::saves() const {
  return experiment_.train.save && !folder_.empty() && rank_.device.has_data();
}

std::optional<std::int64_t> RunSaver::next_copy(std::int64_t steps_done) const {
  const TrainConfig& train = experiment_.train;
  const EvaluationConfig& evaluation = experiment_.evaluation;
  if (!train.save || !train.async_save || train.forward_only || experiment_.clock != ClockType::wall) return {};
  std::int64_t next = train.steps;
  const auto consider = [&](std::int64_t every) {
    if (every > 0) next = std::min(next, (steps_done / every + 1) * every);
  };
  consider(train.save_every);
  if (experiment_.evaluate && evaluation.keep_best) consider(evaluation.every);
  return next < train.steps ? std::optional(next) : std::nullopt;
}

Pace::Seconds RunSaver::time_after(std::int64_t steps_done) const {
  constexpr Pace::Seconds max_time{30};
  const std::int64_t steps = next_copy(steps_done).value_or(experiment_.train.steps) - steps_done;
  return std::min(max_time, last_step_.value_or(Pace::Seconds(0)) * steps / 2);
}

void RunSaver::after_step(Trainer& trainer, std::int64_t steps_done, double seconds) {
  note(writer_.poll());
  const bool is_first = !last_step_;
  last_step_ = Pace::Seconds(seconds);
  if (is_first && saves() && next_copy(steps_done)) writer_.prepare(state_to_save(trainer), time_after(steps_done));
}

void RunSaver::clear() const {
  newest_.clear();
  best_folder_.clear();
}

void RunSaver::resume(std::int64_t first_step, const std::string& measure) {
  saved_after_ = whole_after_ = first_step;
  if (measure.empty() || !saves()) return;
  if (leads()) best_folder_.remove_after(first_step);
  const std::optional<std::int64_t> steps = best_folder_.latest(first_step + 1);
  if (!steps) return;
  try {
    // What an earlier part of the run has kept by another measure does not count.
    if (const std::optional<double> accuracy = best_folder_.number(*steps, measure))
      best_ = whole_best_ = BestCheckpoint{.steps = *steps, .accuracy = *accuracy};
  } catch (const InputError& error) {
    if (leads()) observer_.on_note(fmt::format("the best checkpoint so far does not count: {}", error.what()));
  }
}

void RunSaver::save(Trainer& trainer, std::int64_t steps_done, bool is_last) {
  if (!saves()) return;
  finish();  // before the steps of the new one count as saved
  saved_after_ = steps_done;
  save_into(newest_, trainer, steps_done, experiment_.train.keep, {}, is_last);
}

void RunSaver::save_if_best(Trainer& trainer, std::int64_t steps_done, double accuracy, const std::string& measure) {
  if (best_ && accuracy <= best_->accuracy) return;
  if (saves()) finish();
  best_ = BestCheckpoint{.steps = steps_done, .accuracy = accuracy};
  if (saves()) save_into(best_folder_, trainer, steps_done, 1, {{measure, fmt::format("{}", accuracy)}}, false);
}

void RunSaver::save_into(const CheckpointFolder& folder, Trainer& trainer, std::int64_t steps_done, std::int64_t keep,
                         const SafetensorsMetadata& remarks, bool is_last) {
  const auto begin = std::chrono::steady_clock::now();
  if (leads()) observer_.on_status("saving");
  trainer.catch_up_all();  // what is checked is what is saved
  if (experiment_.train.check_replicas > 0) check_replicas(trainer, steps_done - 1);
  const bool in_background = next_copy(0) && !is_last && steps_done < experiment_.train.steps;
  if (!in_background) {  // else the thread that writes checks it
    trainer.check_finite(steps_done - 1);
    rank_.world.barrier().wait();  // nothing is written where one rank's state is not finite
  }
  CheckpointPart part = folder.part(trainer, steps_done, remarks);
  part.keep = keep;
  writer_.start(std::move(part), in_background ? std::optional(time_after(steps_done)) : std::nullopt);
  if (!in_background) note(writer_.finish());
  add_wait(begin);
}

void RunSaver::finish() {
  if (!writer_.is_writing()) return;
  const auto begin = std::chrono::steady_clock::now();
  note(writer_.finish());
  add_wait(begin);
}

void RunSaver::add_wait(std::chrono::steady_clock::time_point begin) {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  waited_ += seconds;
  new_wait_ = new_wait_.value_or(0) + seconds;
}

std::optional<double> RunSaver::take_wait() {
  return std::exchange(new_wait_, std::nullopt);
}

void RunSaver::note(const std::optional<CheckpointWriter::Written>& written) {
  if (!written) return;
  if (written->failure && written->failure->kind == Failure::Kind::rank_failed) raise(*written->failure);
  const bool is_best = written->folder != folder_;
  if (!written->failure) {
    if (is_best)
      whole_best_ = best_;
    else
      whole_after_ = written->steps_done;
    return;
  }
  if (is_best) {
    best_ = whole_best_;
  } else {
    saved_after_ = whole_after_;
    newest_lost_ = written->steps_done;
  }
  lost_.push_back({written->steps_done, written->failure->why});
  if (leads())
    observer_.on_note(fmt::format(
        "the checkpoint after {} is lost: {}; {}", counted(written->steps_done, "step", "steps"), written->failure->why,
        whole_after_ > 0 ? "the newest one is that after " + counted(whole_after_, "step", "steps")
                         : "there is no earlier one"));
}

std::int64_t RunSaver::copy_bytes(Trainer& trainer) const {
  if (rank_.device.has_data()) return writer_.copy_bytes();
  return next_copy(0) ? bytes_to_copy(state_to_save(trainer)) : 0;
}

}  // namespace heddle
