// One rank's training. A step is compute_gradients, then apply_gradients.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/training/stages/stage_pass.h"
#include "experiments/training/trained_parameters.h"

namespace heddle {

class Trainer {
 public:
  /// `plan` is the plan of the experiment on the rank's mesh.
  Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer,
          std::shared_ptr<const RunPlan> plan);

  /// Executes the schedule of a step over its micro-batches, then the head's weight part; gradients of replicated
  /// parameters are summed over the ranks. Returns the loss as the mean over the global batch, or of several heads the
  /// sum of their loss_weights times their losses; nothing on plan, and nothing in steps that head.loss_every leaves
  /// out. A collective call.
  std::optional<double> compute_gradients(std::int64_t step);
  /// For each head, the mean over its samples of that batch, without the loss_weight; empty without a loss.
  const std::vector<double>& losses() const { return losses_; }

  /// Whether an image of the step, or of the batches that were embedded last, was broken on any rank. A step must then
  /// be dropped, and nothing has changed yet; embeddings must not be used.
  bool has_broken_image() const { return has_broken_image_; }
  /// Updates has_broken_image() from all ranks, after they have read images. All ranks call it; compute_gradients does.
  void share_broken_image();
  /// Throws the InputError of the broken image on the ranks that have read it, for whose failure the others wait.
  [[noreturn]] void end_at_broken_image();
  /// Forgets the step whose gradients were computed: parameters and statistics stay those of the step before.
  void drop_step() { parameters_->drop(); }

  /// Changes the parameters by the gradients, as TrainedParameters::apply says. A collective call.
  StepUpdate apply_gradients(std::int64_t step);

  /// Calls `use` while the backbone has the averages of its weights and running statistics in place of these, if the
  /// run keeps averages. After an exception the averages stay there. A collective call.
  void with_averages(const std::function<void()>& use);

  /// A step's forward pass alone, in evaluation mode. A collective call.
  void forward(std::int64_t step);

  // Evaluation.
  /// The part of `samples` whose images this rank takes.
  IndexRange input_rows(std::int64_t samples) const { return models_.input_rows(samples, rank_.index); }
  /// The number of batches that one call of `embed` takes.
  int embedding_batches() const { return plan_->embedding_batches; }
  /// For each batch of sizes[i] samples, this rank's part of the embeddings [n, d], in evaluation mode and without a
  /// graph; rank by rank they make up the batch. `images` gives the images of this rank's input rows of a batch. A
  /// collective call.
  std::vector<Tensor> embed(const std::vector<std::int64_t>& sizes, const ForwardPass::Load& images);
  ImageReader& images() { return images_; }

  // Checkpoints.
  /// All state of this rank's stages, and of its classes, that is needed to resume. It includes the state of the
  /// optimizer unless the run is train.forward_only.
  std::vector<StateTensor> backbone_state();
  std::vector<StateTensor> head_state();
  /// The state of one head, by the number of its data set.
  std::vector<StateTensor> head_state(std::size_t head);
  /// The state of the backbone, then that of the heads.
  std::vector<StateTensor> state();
  /// Takes the steps that classes outside of the samples have deferred (Unsampled::lazy), for a state to be saved.
  void catch_up_all();
  /// RankFailed, with the step and the first tensor's name, if an element of the floating-point state that this rank
  /// holds after this step is not finite. Reads all of it once; nothing on plan.
  void check_finite(std::int64_t step);
  /// The number of shards in which a head samples its classes: as the experiment says, or else the number of its
  /// ranks; 0 if it has all classes in every step.
  std::int64_t sample_shards(std::size_t head) const { return sample_shards_[head]; }
  /// Samples in this number of shards from the next step on. All ranks call it.
  void set_sample_shards(std::size_t head, std::int64_t shards);
  /// The optimizer's step in which the heads began to train: 0, or the step where a resumed run began with a new one.
  std::int64_t head_first_step() const { return head_first_step_; }
  void set_head_first_step(std::int64_t step);

  TrainedParameters& parameters() { return *parameters_; }
  std::vector<Buffer*> buffers() { return models_.buffers(); }
  const RunPlan& plan() const { return *plan_; }
  Rank& rank() { return rank_; }
  const Dataset& dataset() const { return dataset_; }
  const Experiment& experiment() const { return experiment_; }

 private:
  PipelineEngine engine(const std::shared_ptr<const PipelineProgram>& program);
  /// The parts of a step's batch that this rank reads.
  std::vector<LoadedPart> loaded_parts() const;
  /// Gives all ranks the losses, which only the last stage may know; in a step without a loss, waits for all stages.
  std::vector<double> shared_losses(std::int64_t step, std::vector<double> losses);
  /// InputError if two parameters or buffers have the same name: a checkpoint could not distinguish them.
  void check_names();

  const Experiment& experiment_;
  const Dataset& dataset_;
  Rank& rank_;
  Tracer& tracer_;
  std::shared_ptr<const RunPlan> plan_;
  Construction construction_;
  StageModels models_;
  TrainingBatches batches_;
  std::unique_ptr<Heads> heads_;             // null on ranks without classes
  std::vector<std::int64_t> sample_shards_;  // of each head
  std::int64_t head_first_step_ = 0;
  std::optional<TrainedParameters> parameters_;  // made in the constructor's body: it is given the heads
  std::vector<double> losses_;
  ImageReader images_;
  bool has_broken_image_ = false;
};

}  // namespace heddle
