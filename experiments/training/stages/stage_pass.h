// The work of a rank's stages in one run of the pipeline's engine: a training step, or a forward pass without a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "experiments/training/image_reader.h"
#include "experiments/training/stages/loss_in_parts.h"
#include "experiments/training/stages/stage_models.h"
#include "layers/head/heads.h"
#include "parallel/communicator/tracer.h"
#include "parallel/placement/gradient_buckets.h"

namespace heddle {

class StagePass : public PipelineStages {
 public:
  std::vector<Variable> forward(int stage, int micro_batch, std::vector<Variable> inputs, bool recomputing) override;
  std::vector<bool> input_gradients(int stage) const override;
  std::vector<bool> output_gradients(int stage) const override;

 protected:
  StagePass(StageModels& models, Rank& rank, bool training, std::int64_t step)
      : models_(models), rank_(rank), training_(training), step_(step) {}
  virtual IndexRange samples(int micro_batch) const = 0;

  StageModels& models_;
  Rank& rank_;
  bool training_;
  std::int64_t step_;
};

/// What a training pass uses besides the stages.
struct TrainingContext {
  const Experiment& experiment;
  Tracer& tracer;
  ImageReader& images;
  const TrainingBatches& batches;
  Heads* heads;  // null on ranks that have no classes
  GradientBuckets& buckets;
  /// The factor of the gradient with which backward passes start.
  double loss_scale = 1;
  /// Called when all images of the step are read, if heads are updated before the layers' backward passes.
  std::function<void()> before_heads{};
  /// For each head, updates it before the layers' backward passes; an empty function where that is impossible.
  std::vector<std::function<void()>> update_heads{};
};

class TrainingPass final : public StagePass {
 public:
  /// `batch` holds the indices of the step's samples in the data set.
  TrainingPass(const TrainingContext& context, StageModels& models, Rank& rank, std::span<const std::int64_t> batch,
               std::int64_t step)
      : StagePass(models, rank, true, step), context_(context), batch_(batch) {}

  Tensor load(int micro_batch) override;
  Tensor loss(int micro_batch, const Tensor& output) override;
  void broadcast_for_loss(int micro_batch, const Tensor& output) override;
  void sum_loss(int micro_batch) override { parts_.sum(micro_batch); }
  void compute_loss_gradient(int micro_batch) override { parts_.compute_gradient(micro_batch); }
  Tensor wait_for_loss_gradient(int micro_batch) override { return parts_.wait_for_gradient(micro_batch); }
  /// Called when the pipeline has been run: the rest of a loss in parts.
  void finish_loss() { parts_.finish(); }
  void before_last_weight_gradient() override {
    context_.buckets.begin();
    context_.buckets.start_complete();
  }
  /// For each head, the mean over its samples of the global batch; empty on ranks without heads or data, and in a step
  /// without a loss.
  const std::vector<double>& losses() const { return losses_; }

 private:
  IndexRange samples(int micro_batch) const override;
  IndexRange output_samples(int micro_batch, int rank) const;
  /// Calls `use` with what the heads need to know about a micro-batch.
  void with_heads_input(int micro_batch, const Tensor& output, const std::function<void(const HeadsInput&)>& use);
  /// Adds the losses, and returns the gradient with which the backward pass of the last stage's output starts; none on
  /// ranks without an output, which has the type.
  Tensor take(HeadsOutput result, std::optional<DType> dtype);
  void add_losses(const std::vector<Tensor>& sums);

  TrainingContext context_;
  std::span<const std::int64_t> batch_;
  std::vector<double> losses_;
  LossInParts parts_;
};

/// A forward pass in evaluation mode.
class ForwardPass final : public StagePass {
 public:
  /// Gives the images of this rank's input rows of a micro-batch.
  using Load = std::function<Tensor(int micro_batch)>;
  /// `sizes` are the numbers of samples of the micro-batches.
  ForwardPass(StageModels& models, Rank& rank, std::vector<std::int64_t> sizes, Load load)
      : StagePass(models, rank, false, 0), sizes_(std::move(sizes)), load_(std::move(load)) {}

  Tensor load(int micro_batch) override { return load_(micro_batch); }
  Tensor loss(int micro_batch, const Tensor& output) override;

 private:
  IndexRange samples(int micro_batch) const override { return {0, sizes_[static_cast<std::size_t>(micro_batch)]}; }

  std::vector<std::int64_t> sizes_;
  Load load_;
};

}  // namespace heddle
