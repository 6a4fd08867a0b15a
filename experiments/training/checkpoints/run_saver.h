// Saves a run: its newest checkpoints and, with evaluation.keep_best, the best one. Each rank has one, and all of them
// make the same calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/training/checkpoints/checkpoint.h"
#include "experiments/training/checkpoints/checkpoint_writer.h"
#include "experiments/training/measurements/result.h"
#include "experiments/training/run_observer.h"
#include "experiments/training/trainer.h"

namespace heddle {

class RunSaver {
 public:
  /// Nothing is saved if `folder` is empty or the device has no data. The observer is rank 0's.
  RunSaver(const Experiment& experiment, const std::filesystem::path& folder, const ExperimentIdentity& identity,
           Rank& rank, RunObserver& observer);

  bool saves() const;
  const CheckpointFolder& newest() const { return newest_; }
  /// Rank 0, before a run that does not resume: an earlier run's checkpoints would be resumed later.
  void clear() const;
  /// The run resumes after these steps. `measure` names what the best checkpoint is the best in; empty: none is kept.
  /// One of later steps is removed: these are evaluated again.
  void resume(std::int64_t first_step, const std::string& measure);

  /// Saves after these steps. If more follow, the checkpoint is written while they are trained (train.async_save).
  /// InputError or RankFailed if the state should not be saved, from here or, once a thread has seen it, from
  /// `after_step` or `finish`; a disk that does not take it is no error.
  void save(Trainer& trainer, std::int64_t steps_done, bool is_last);
  /// The same in the folder of the best one, if the accuracy is the best so far.
  void save_if_best(Trainer& trainer, std::int64_t steps_done, double accuracy, const std::string& measure);
  /// After a step, which took so many seconds: notes whether a checkpoint has become whole or lost, without waiting for
  /// the disk. After the first step of the run, reserves the memory of the copy, if one will be made.
  void after_step(Trainer& trainer, std::int64_t steps_done, double seconds);
  /// Waits for the checkpoint that is being written.
  void finish();

  /// The seconds in which the training has waited for checkpoints so far.
  double waited_seconds() const { return waited_; }
  /// The seconds that it has waited since the last call; nothing if it has not.
  std::optional<double> take_wait();

  /// The steps after which the newest checkpoint was saved, or is being written; 0: none.
  std::int64_t saved_after() const { return saved_after_; }
  const std::optional<BestCheckpoint>& best() const { return best_; }
  /// What could not be written, on all ranks.
  const std::vector<LostCheckpoint>& lost() const { return lost_; }
  /// Whether the newest checkpoint is that after these steps, and could not be written.
  bool has_lost_newest(std::int64_t steps_done) const { return newest_lost_ == steps_done; }
  /// The size of this rank's copy in the host's memory; on plan, of the copy that a run would make.
  std::int64_t copy_bytes(Trainer& trainer) const;

 private:
  /// Of the steps after which a checkpoint is written while the training goes on, the first that is more than these;
  /// nothing if there is none. On a virtual clock there is none, which that would disturb.
  std::optional<std::int64_t> next_copy(std::int64_t steps_done) const;
  /// How long what is done in the background after these steps may take: half of the time until the next checkpoint,
  /// and not so long that much work is lost with a process that ends meanwhile.
  Pace::Seconds time_after(std::int64_t steps_done) const;
  void save_into(const CheckpointFolder& folder, Trainer& trainer, std::int64_t steps_done, std::int64_t keep,
                 const SafetensorsMetadata& remarks, bool is_last);
  void note(const std::optional<CheckpointWriter::Written>& written);
  void add_wait(std::chrono::steady_clock::time_point begin);
  bool leads() const { return rank_.index == 0; }

  const Experiment& experiment_;
  std::filesystem::path folder_;
  CheckpointFolder newest_;
  CheckpointFolder best_folder_;
  Rank& rank_;
  RunObserver& observer_;
  CheckpointWriter writer_;
  std::optional<Pace::Seconds> last_step_;  // how long it took
  double waited_ = 0;
  std::optional<double> new_wait_;
  std::int64_t saved_after_ = 0;  // what is being written included
  std::int64_t whole_after_ = 0;
  std::optional<BestCheckpoint> best_;  // what is being written included
  std::optional<BestCheckpoint> whole_best_;
  std::vector<LostCheckpoint> lost_;
  std::optional<std::int64_t> newest_lost_;  // the steps of the last one of lost_ that is not a best one
};

}  // namespace heddle
