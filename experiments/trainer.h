// One rank's training: what happens in a step, in the order in which it happens.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "experiments/experiment.h"
#include "framework/optimizer.h"
#include "layers/head/head.h"
#include "layers/model.h"
#include "parallel/gradient_buckets.h"
#include "parallel/rank.h"
#include "parallel/tracer.h"

namespace heddle {

/// The first of the ranks that hold the same part as this rank.
int owner(const ParameterPart& part, const Rank& rank);

class Trainer {
 public:
  Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer);
  /// With a backbone of the caller's.
  Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer,
          std::shared_ptr<const ModelDescription> backbone);

  /// Forward and backward over the step's micro-batches, then the head's weight part; gradients of replicated
  /// parameters are summed over the ranks. Gives the loss, the mean over the global batch; nothing on plan. A
  /// collective call.
  std::optional<double> compute_gradients(std::int64_t step);

  struct Update {
    double learning_rate = 0;
    std::optional<double> gradient_norm;  // when clipping by it
  };
  /// Clips, steps the optimizer, closes the step's running statistics and lets the gradients go. A collective call.
  Update apply_gradients(std::int64_t step);

  /// The part of so many samples, from the leading one on, whose images this rank takes, and whose embeddings it gives.
  ShardRange input_rows(std::int64_t samples) const;
  ShardRange output_rows(std::int64_t samples, int rank) const;
  /// Embeddings of this rank's output rows of `samples` images, from its input rows' images, in evaluation mode,
  /// without a graph. A collective call.
  Tensor embed(const Tensor& images, std::int64_t samples);
  /// Host pixels [n, height, width, channels] as the model takes them; on plan there are none.
  Tensor to_device(std::span<const float> pixels, std::int64_t images);

  /// The backbone's in model order, then the head's.
  std::vector<Parameter*> parameters();
  /// What this rank has of a parameter's summed gradient and optimizer state, and steps: what it holds of the
  /// parameter, or with train.shard a range of its elements.
  ParameterPart stepped_part(const Parameter& parameter) const;
  std::vector<Buffer*> buffers() { return backbone_.buffers(); }
  Optimizer& optimizer() { return *optimizer_; }
  Head& head() { return *head_; }
  const Model& backbone() const { return backbone_; }
  Rank& rank() { return rank_; }
  const Experiment& experiment() const { return experiment_; }

 private:
  Tensor read_images(std::span<const std::int64_t> indices, std::int64_t step, std::int64_t first);
  /// Positions in the global batch of a micro-batch's samples.
  ShardRange micro_batch_samples(std::int64_t index) const;
  std::optional<double> micro_batch(std::int64_t step, std::span<const std::int64_t> batch, std::int64_t index);
  /// Whether ranks with equal copies of a parameter each step a range of its elements (ZeRO-1).
  bool shards_step(const Parameter& parameter) const;
  /// InputError if two parameters or buffers have one name: a checkpoint could not tell them apart.
  void check_names();
  double gradient_norm();
  std::optional<double> clip_gradients();

  const Experiment& experiment_;
  const Dataset& dataset_;
  Rank& rank_;
  Tracer& tracer_;
  Model backbone_;
  std::unique_ptr<Head> head_;
  std::unique_ptr<GradientBuckets> buckets_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<float> pixels_;  // host staging of a piece of a micro-batch
};

}  // namespace heddle
