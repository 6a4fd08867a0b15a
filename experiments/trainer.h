// One rank's training: what happens in a step, in the order in which it happens.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/experiment.h"
#include "framework/optimizer.h"
#include "layers/head/head.h"
#include "layers/model.h"
#include "parallel/rank.h"
#include "parallel/tracer.h"

namespace heddle {

/// Builds the backbone; tests bring their own.
using ModelMaker = std::function<Model(Construction&)>;

class Trainer {
 public:
  Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer);
  Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer,
          const ModelMaker& make_backbone);

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

  /// Embeddings [n, d] of images in evaluation mode, without a graph.
  Tensor embed(const Tensor& images);
  /// Host pixels [n, height, width, channels] as the model takes them; on plan there are none.
  Tensor to_device(std::span<const float> pixels, std::int64_t images);

  /// The backbone's in model order, then the head's.
  std::vector<Parameter*> parameters();
  std::vector<Buffer*> buffers() { return backbone_.buffers(); }
  Optimizer& optimizer() { return *optimizer_; }
  Head& head() { return *head_; }
  Rank& rank() { return rank_; }
  const Experiment& experiment() const { return experiment_; }

 private:
  Tensor read_images(std::span<const std::int64_t> indices, std::int64_t step, std::int64_t first);
  std::optional<double> micro_batch(std::int64_t step, std::span<const std::int64_t> batch, std::int64_t index);
  void sum_gradients();
  std::optional<double> clip_gradients();

  const Experiment& experiment_;
  const Dataset& dataset_;
  Rank& rank_;
  Tracer& tracer_;
  Model backbone_;
  std::unique_ptr<Head> head_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<float> pixels_;  // host staging of a piece of a micro-batch
};

}  // namespace heddle
