// One rank's training: what happens in a step, in the order in which it happens.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "experiments/stage_pass.h"
#include "framework/optimizer.h"

namespace heddle {

/// The first of the ranks that hold the same part as this rank.
int owner(const ParameterPart& part, const Rank& rank);

class Trainer {
 public:
  /// `plan` is that of the experiment on the rank's mesh.
  Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer,
          std::shared_ptr<const RunPlan> plan);

  /// Executes the schedule of a step over its micro-batches, then the head's weight part; gradients of replicated
  /// parameters are summed over the ranks. Gives the loss, the mean over the global batch; nothing on plan, and in
  /// steps between those of head.loss_every. A collective call.
  std::optional<double> compute_gradients(std::int64_t step);

  struct Update {
    double learning_rate = 0;
    std::optional<double> gradient_norm{};  // when clipping by it
    std::optional<double> loss_scale{};     // that of the step, in f16
    bool is_skipped = false;
  };
  /// Clips, steps the optimizer, closes the step's running statistics and lets the gradients go. Where a gradient of
  /// f16 has overflowed, on whichever rank, all ranks skip the step: neither weights nor optimizer state change, the
  /// head's included, and the optimizer does not count it. A collective call.
  Update apply_gradients(std::int64_t step);

  /// A step's forward pass alone, in evaluation mode. A collective call.
  void forward(std::int64_t step);

  /// The part of so many samples, from the leading one on, whose images this rank takes.
  ShardRange input_rows(std::int64_t samples) const { return models_.input_rows(samples, rank_.index); }
  /// How many batches `embed` takes at once.
  int embedding_batches() const { return plan_->embedding_batches; }
  /// Of each of so many batches, sizes[i] samples, this rank's part of the embeddings [n, d], in evaluation mode and
  /// without a graph; rank by rank they make up the batch. `images` gives this rank's input rows' images of a batch. A
  /// collective call.
  std::vector<Tensor> embed(const std::vector<std::int64_t>& sizes, const ForwardPass::Load& images);
  ImageReader& images() { return images_; }

  /// Those of this rank's stages in model order, then the head's.
  std::vector<Parameter*> parameters();
  /// What this rank has of a parameter's summed gradient and optimizer state, and steps: what it holds of the
  /// parameter, or with train.shard a range of its elements.
  ParameterPart stepped_part(const Parameter& parameter) const;
  std::vector<Buffer*> buffers() { return models_.buffers(); }
  /// All that this rank holds and needs to go on, the optimizer's state included (none with train.forward_only): of its
  /// stages, and of its classes.
  std::vector<StateTensor> backbone_state();
  std::vector<StateTensor> head_state();
  /// RankFailed, with the step and the first tensor's name, if an element of the floating-point state that this rank
  /// holds after this step is not finite. Reads all of it once; nothing on plan.
  void check_finite(std::int64_t step);
  /// In how many shards the head samples its classes: as the experiment says, else as many as it has ranks; 0: it has
  /// all classes in every step.
  std::int64_t sample_shards() const { return sample_shards_; }
  /// From the next step on in so many. To be called by all ranks.
  void sample_in(std::int64_t shards);
  /// The optimizer's step in which the head began to train: 0, or where a run that went on began a new one.
  std::int64_t head_first_step() const { return head_first_step_; }
  void set_head_first_step(std::int64_t step);
  /// In f16 only. Steps of the optimizer are those that were not skipped.
  std::optional<LossScale>& loss_scale() { return loss_scale_; }
  std::int64_t optimizer_steps(std::int64_t steps) const {
    return loss_scale_ ? steps - loss_scale_->skipped_steps() : steps;
  }
  const RunPlan& plan() const { return *plan_; }
  Rank& rank() { return rank_; }
  const Experiment& experiment() const { return experiment_; }

 private:
  PipelineEngine engine(const std::shared_ptr<const PipelineProgram>& program);
  std::vector<std::int64_t> batch_of(std::int64_t step) const;
  /// The verdict on a step, which all stages wait for: tells all ranks the loss that only the last stage's may know.
  std::optional<double> shared_loss(std::int64_t step, std::optional<double> loss);
  /// Whether ranks with equal copies of a parameter each step a range of its elements (ZeRO-1).
  bool shards_step(const Parameter& parameter) const;
  /// InputError if two parameters or buffers have one name: a checkpoint could not tell them apart.
  void check_names();
  void make_optimizer_and_buckets();
  /// Parameters with the optimizer's state of them.
  std::vector<StateTensor> state_of(const std::vector<Parameter*>& parameters) const;
  /// Whether the head's phase 2 has to know nothing of the step's other gradients, and so runs within the loss, while
  /// the embeddings' gradient is exchanged. Stages of a pipeline leave it for the end, as their profile does; where
  /// copies add up each tile's gradient, the first of these sums would wait for that exchange. With a loss scale the
  /// other gradients decide whether there is a step.
  bool updates_head_early() const;
  void update_head(std::int64_t step, double factor);
  double learning_rate_of(std::int64_t step) const;
  /// Divides the gradients of the stages' parameters by the loss scale. Gives whether one of any rank's is not finite.
  bool unscale_gradients();
  double gradient_norm();
  /// The norm before clipping by it, and what the gradients were multiplied by.
  struct Clipped {
    std::optional<double> norm{};
    double factor = 1;
  };
  Clipped clip_gradients();
  /// Gives the gradients' norm, if they are clipped by it.
  std::optional<double> step_optimizer(std::int64_t step, double learning_rate);

  const Experiment& experiment_;
  const Dataset& dataset_;
  Rank& rank_;
  Tracer& tracer_;
  std::shared_ptr<const RunPlan> plan_;
  Construction construction_;
  StageModels models_;
  std::unique_ptr<Head> head_;  // none on ranks without classes
  std::int64_t sample_shards_ = 0;
  std::int64_t head_first_step_ = 0;
  /// Of training only.
  std::unique_ptr<GradientBuckets> buckets_;
  std::unique_ptr<GradientBuckets>
      head_buckets_;  // of a replicated head, whose gradient comes after all backward passes
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LossScale> loss_scale_;
  bool has_overflowed_ = false;
  ImageReader images_;
};

}  // namespace heddle
