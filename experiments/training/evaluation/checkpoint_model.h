// The backbone of a checkpoint, which embeds images or is exported. Neither the training data nor the head is needed.
#pragma once

#include <functional>
#include <memory>

#include "experiments/data/dataset.h"
#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/experiment.h"
#include "experiments/training/planning/run_plan.h"
#include "experiments/training/trainer.h"
#include "parallel/transports/processes/job.h"

namespace heddle {

class CheckpointModel {
 public:
  /// `saved` is the experiment of the checkpoint, on whose mesh the model runs; it may differ from that of the
  /// training. InputError if the experiment does not fit together.
  CheckpointModel(const Experiment& saved, FoundCheckpoint checkpoint);

  /// The experiment without its training: what the embeddings depend on, and the evaluation.
  const Experiment& experiment() const { return experiment_; }
  /// The data of the training if a set of the evaluation is drawn from them, else only their preprocessing.
  const Dataset& data() const { return *data_; }
  const ModelSpec& model() const { return *plan_->model; }

  /// Calls `use` on every rank, with a trainer that has the weights. A collective call of the job's processes.
  /// InputError if the checkpoint belongs to another model, or is damaged.
  void on_ranks(Job* job, const std::function<void(Trainer&)>& use) const;

 private:
  Experiment experiment_;
  FoundCheckpoint checkpoint_;
  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<const RunPlan> plan_;
};

}  // namespace heddle
