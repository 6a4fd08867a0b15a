// One rank's training: the parts of a step, in the order in which they happen.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "experiments/training/stage_pass.h"
#include "framework/optimizers/optimizer.h"

namespace heddle {

/// The first of the ranks that hold the same part as this rank.
int owner(const ParameterPart& part, const Rank& rank);

class Trainer {
 public:
  /// `plan` is the experiment's on the rank's mesh.
  Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer,
          std::shared_ptr<const RunPlan> plan);

  /// Executes the schedule of a step over its micro-batches, then the head's weight part; gradients of replicated
  /// parameters are summed over the ranks. Returns the loss, the mean over the global batch; nothing on plan, and
  /// nothing in steps that head.loss_every leaves out. A collective call.
  std::optional<double> compute_gradients(std::int64_t step);

  struct Update {
    double learning_rate = 0;
    std::optional<double> gradient_norm{};  // when clipping by it
    std::optional<double> loss_scale{};     // that of the step, in f16
    bool is_skipped = false;
  };
  /// Clips the gradients, steps the optimizer, updates the running statistics and frees the gradients. Where a gradient
  /// of f16 has overflowed, on whichever rank, all ranks skip the step: neither weights nor optimizer state change, the
  /// head's included, and the optimizer does not count it. A collective call.
  Update apply_gradients(std::int64_t step);

  /// A step's forward pass alone, in evaluation mode. A collective call.
  void forward(std::int64_t step);

  /// The part of `samples` whose images this rank takes.
  ShardRange input_rows(std::int64_t samples) const { return models_.input_rows(samples, rank_.index); }
  /// The number of batches that `embed` takes at once.
  int embedding_batches() const { return plan_->embedding_batches; }
  /// For each batch of sizes[i] samples, this rank's part of the embeddings [n, d], in evaluation mode and without a
  /// graph; rank by rank they make up the batch. `images` gives the images of this rank's input rows of a batch. A
  /// collective call.
  std::vector<Tensor> embed(const std::vector<std::int64_t>& sizes, const ForwardPass::Load& images);
  ImageReader& images() { return images_; }

  /// The parameters of this rank's stages in model order, then the head's.
  std::vector<Parameter*> parameters();
  /// The part of a parameter that this rank steps, and of which it has the summed gradient and the optimizer's state:
  /// the part that it holds, or with train.shard a range of its elements.
  ParameterPart stepped_part(const Parameter& parameter) const;
  std::vector<Buffer*> buffers() { return models_.buffers(); }
  /// All state of this rank's stages, and of its classes, that is needed to resume. It includes the optimizer's, which
  /// there is none of with train.forward_only.
  std::vector<StateTensor> backbone_state();
  std::vector<StateTensor> head_state();
  /// RankFailed, with the step and the first tensor's name, if an element of the floating-point state that this rank
  /// holds after this step is not finite. Reads all of it once; nothing on plan.
  void check_finite(std::int64_t step);
  /// The number of shards in which the head samples its classes: as the experiment says, or else the number of its
  /// ranks; 0 if it has all classes in every step.
  std::int64_t sample_shards() const { return sample_shards_; }
  /// Samples in this number of shards from the next step on. To be called by all ranks.
  void sample_in(std::int64_t shards);
  /// The optimizer's step in which the head began to train: 0, or the step where a resumed run began with a new one.
  std::int64_t head_first_step() const { return head_first_step_; }
  void set_head_first_step(std::int64_t step);
  /// Present in f16 only.
  std::optional<LossScale>& loss_scale() { return loss_scale_; }
  /// The optimizer's steps among the first `steps`: those that were not skipped.
  std::int64_t optimizer_steps(std::int64_t steps) const {
    return loss_scale_ ? steps - loss_scale_->skipped_steps() : steps;
  }
  const RunPlan& plan() const { return *plan_; }
  Rank& rank() { return rank_; }
  const Experiment& experiment() const { return experiment_; }

 private:
  PipelineEngine engine(const std::shared_ptr<const PipelineProgram>& program);
  std::vector<std::int64_t> batch_of(std::int64_t step) const;
  /// The overflow check of a step, for which all stages wait. It also gives all ranks the loss, which only the last
  /// stage may know.
  std::optional<double> shared_loss(std::int64_t step, std::optional<double> loss);
  /// Whether ranks with equal copies of a parameter each step a range of its elements (ZeRO-1).
  bool shards_step(const Parameter& parameter) const;
  /// InputError if two parameters or buffers have the same name: a checkpoint could not distinguish them.
  void check_names();
  void make_optimizer_and_buckets();
  /// The parameters together with the optimizer's state of each.
  std::vector<StateTensor> state_of(const std::vector<Parameter*>& parameters) const;
  /// Whether the head's phase 2 is independent of the step's other gradients, and so runs within the loss, while the
  /// embeddings' gradient is exchanged. Stages of a pipeline leave it for the end, as their profile does. Where copies
  /// add up each tile's gradient, the first of these sums would wait for that exchange. With a loss scale the other
  /// gradients decide whether there is a step.
  bool updates_head_early() const;
  void update_head(std::int64_t step, double factor);
  double learning_rate_of(std::int64_t step) const;
  /// Divides the gradients of the stages' parameters by the loss scale. Returns whether a gradient of any rank is not
  /// finite.
  bool unscale_gradients();
  double gradient_norm();
  /// The norm before clipping, and the factor by which the gradients were multiplied.
  struct Clipped {
    std::optional<double> norm{};
    double factor = 1;
  };
  Clipped clip_gradients();
  /// Returns the gradients' norm, if they are clipped by it.
  std::optional<double> step_optimizer(std::int64_t step, double learning_rate);

  const Experiment& experiment_;
  const Dataset& dataset_;
  Rank& rank_;
  Tracer& tracer_;
  std::shared_ptr<const RunPlan> plan_;
  Construction construction_;
  StageModels models_;
  std::unique_ptr<Head> head_;  // null on ranks without classes
  std::int64_t sample_shards_ = 0;
  std::int64_t head_first_step_ = 0;
  // These are null without training.
  std::unique_ptr<GradientBuckets> buckets_;
  std::unique_ptr<GradientBuckets>
      head_buckets_;  // for a replicated head, whose gradient comes after all backward passes
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LossScale> loss_scale_;
  bool has_overflowed_ = false;
  ImageReader images_;
};

}  // namespace heddle
