// The parameters of one rank in training, and how a step changes them: gradients are summed over the ranks, unscaled,
// clipped, and applied by the optimizer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "experiments/training/experiment.h"
#include "experiments/training/stages/stage_models.h"
#include "framework/optimizers/optimizer.h"
#include "framework/optimizers/weight_averages.h"
#include "layers/head/heads.h"
#include "parallel/communicator/tracer.h"
#include "parallel/placement/gradient_buckets.h"

namespace heddle {

/// The first of the ranks that hold the same part as this rank.
int owner(const ParameterPart& part, const Rank& rank);

/// What a step did to the parameters.
struct StepUpdate {
  double learning_rate = 0;
  std::optional<double> gradient_norm{};  // if gradients are clipped by it
  std::optional<double> loss_scale{};     // the scale of this step, in f16 only
  bool is_skipped = false;
};

class TrainedParameters {
 public:
  /// `heads` are null on ranks without classes.
  TrainedParameters(const Experiment& experiment, Rank& rank, Tracer& tracer, StageModels& models, Heads* heads);

  /// The parameters of this rank's stages in model order, then the heads'.
  std::vector<Parameter*> all() const;
  /// The part of a parameter that this rank steps, and of which it has the summed gradient and the optimizer's state:
  /// the part that it holds, or with train.shard a range of its elements.
  ParameterPart stepped_part(const Parameter& parameter) const;
  /// What the gradient of a parameter is still multiplied by after finish_gradients: the loss scale if it has 16 bits.
  double gradient_scale(const Parameter& parameter) const;
  /// The parameters together with the optimizer's state of each.
  std::vector<StateTensor> state_of(const std::vector<Parameter*>& parameters) const;
  /// The averages of the stages' trained parameters and of their running statistics; none without train.ema.
  std::vector<StateTensor> averages();
  /// Begins the averages anew from the present weights, after weights were loaded that are not from a checkpoint.
  void restart_averages();
  /// Puts the averages, if there are any, in place of the weights and running statistics, which are kept until
  /// `restore_weights`. Collective calls.
  void use_averages();
  void restore_weights();
  /// Present in f16 only.
  std::optional<LossScale>& loss_scale() { return loss_scale_; }
  /// The optimizer's steps among the first `steps`: those that were not skipped.
  std::int64_t optimizer_steps(std::int64_t steps) const {
    return loss_scale_ ? steps - loss_scale_->skipped_steps() : steps;
  }
  /// Makes the heads begin to train after this number of the optimizer's steps.
  void set_head_first_step(std::int64_t step);

  /// Sums the gradients of the stages during the backward passes.
  GradientBuckets& buckets() { return *buckets_; }
  /// Finishes the sums over the ranks and divides them by the loss scale, except those of 16 bits (see gradient_scale).
  /// All ranks call it after the last backward pass.
  void finish_gradients();
  /// Whether a head's phase 2 is independent of the step's other gradients, and so runs within the loss, while the
  /// embeddings' gradient is exchanged. Stages of a pipeline run it at the end, as their profile does. Where copies
  /// add up each tile's gradient, the first of these sums would wait for that exchange. With a loss scale the other
  /// gradients decide whether there is a step.
  bool updates_head_early(std::size_t head) const;
  /// A head's phase 2, with its gradients multiplied by `factor`.
  void update_head(std::size_t head, std::int64_t step, double factor);
  /// Clips the gradients, steps the optimizer, updates the running statistics and frees the gradients. Where a gradient
  /// of f16 has overflowed on any rank, all ranks skip the step: neither weights nor optimizer state change, the head's
  /// included, and the optimizer does not count it. Averages of the weights follow. A collective call.
  StepUpdate apply(std::int64_t step);
  /// Frees the gradients without a step: parameters and optimizer state stay as they are.
  void drop();

 private:
  /// The norm before clipping, and the factor by which the gradients were multiplied, except those of 16 bits and the
  /// head's, to which it still applies.
  struct Clipped {
    std::optional<double> norm{};
    double factor = 1;
  };

  void make_optimizer_and_buckets();
  /// A parameter's gradient, as buckets sum it over the ranks.
  PartialGradient partial_gradient(const Parameter& parameter) const;
  /// A parameter's part that this rank steps, as the optimizer sees it.
  TrainedWeight trained_weight(const Parameter& parameter, double learning_rate_factor) const;
  void make_averages();
  std::size_t heads() const { return heads_ == nullptr ? 0 : heads_->size(); }
  /// Whether ranks with equal copies of a parameter each step a range of its elements (ZeRO-1).
  bool shards_step(const Parameter& parameter) const;
  /// Gathers on all ranks the elements of those parameters of which each rank has stepped a range (ZeRO-1).
  void gather_steps(const std::vector<Parameter*>& parameters);
  double learning_rate_of(std::int64_t step) const;
  /// What train.lr_factors multiplies the learning rate of a parameter by; of a head's, that of its weight.
  double rate_factor(const std::string& parameter) const;
  /// The parameters whose gradients are clipped.
  std::vector<Parameter*> clipped() const;
  /// Divides the gradients of the stages' parameters by the loss scale, except those of 16 bits. Returns whether a
  /// gradient of any rank is not finite.
  bool unscale();
  double gradient_norm();
  Clipped clip();
  /// Returns the gradients' norm, if they are clipped by it.
  std::optional<double> step_optimizer(std::int64_t step, double learning_rate);

  const Experiment& experiment_;
  Rank& rank_;
  Tracer& tracer_;
  StageModels& models_;
  Heads* heads_;
  // These are null without training.
  std::unique_ptr<GradientBuckets> buckets_;
  std::unique_ptr<GradientBuckets> head_buckets_;  // for replicated heads, after all backward passes
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<WeightAverages> averages_;  // with train.ema
  std::optional<LossScale> loss_scale_;
  bool has_overflowed_ = false;
};

}  // namespace heddle
