// The large-class head: a normalised linear layer over classes with a margin softmax, whose classes are sharded over
// ranks. The algorithm has two phases (after An et al., "Partial FC", 2021/2022, with the weight part deferred to the
// end of the step):
//
//   phase 1, for each micro-batch: gather the embeddings and compute the loss and the embeddings' gradient; keep the
//            normalised embeddings, labels and log-sum-exps;
//   phase 2, once per step, after the check for overflow and NaN: compute the weights' gradient over all kept rows,
//            class tile by class tile (weight_gradient.h). The optimizer steps each tile while it is in the cache, and
//            the gradient of all classes is never held (except with `sample.gradient` = `dense`).
//
// Micro-batches therefore cost memory for embeddings, not for weight gradients, and the only state is weights and
// momentum, in the types that the experiment names (class_state.h). If the classes are sharded along only some of the
// mesh's axes, the ranks along the other axes hold copies of them: each group of ranks that shares the classes sees its
// own samples, and phase 2 sums a tile's gradient over the copies before the tile is stepped on all of them alike. The
// weight of a replicated head is a parameter like any other: phase 2 stores its gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layers/head/class_state.h"
#include "layers/head/class_tiles.h"
#include "layers/head/head_config.h"
#include "layers/head/head_margin.h"
#include "layers/head/head_sample.h"
#include "layers/head/logits/logits.h"
#include "layers/parameter.h"
#include "parallel/rank.h"

namespace heddle {

/// The embeddings of this rank's part of a micro-batch, and what the loss needs to know about them.
struct HeadInput {
  Tensor embedding;                      // [b, d], f32 or f64; b may be 0
  std::span<const std::int64_t> labels;  // [b], in [0, classes)
  /// The samples of every rank that shares the classes with this one, in rank order, as positions in the global batch;
  /// b of them are this rank's own.
  std::vector<IndexRange> samples;
  std::int64_t global_batch = 1;  // the loss is the mean over this number of samples
  /// The weights of the losses of all of `samples`, in their order; empty: 1. The mean divides by global_batch all the
  /// same.
  std::vector<double> weights{};
  /// Called once, while the embeddings' gradient is being sent to its ranks. If phase 2 depends on nothing else in
  /// the step, it may run then. By then all log-sum-exps have been checked to be finite.
  std::function<void()> while_reducing{};
};

struct HeadOutput {
  /// []: the sum of the micro-batch's weighted losses over all samples, divided by the global batch. Gradients include
  /// the factor loss_weight, this sum does not. Undefined in a step without a loss.
  Tensor loss_sum;
  Tensor losses;              // [b]: of this rank's samples, weighted, if loss_reduction is reduce_scatter
  Tensor embedding_gradient;  // [b, d]
};

class Head {
 public:
  /// Constructed by all ranks that take part in the head (HeadConfig::axes); `dimension` is the size d of the
  /// embedding. The parameters are called `name`.weight and so on, and errors begin with the name.
  Head(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension, Rank& rank,
       Construction& construction, const std::string& name = "head", HeadWork work = HeadWork::at_once);
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  /// From the next step on, classes are sampled in this number of shards.
  void set_sample_shards(std::int64_t shards) { sample_.set_shards(shards); }
  /// The step in which the classes are trained for the first time, where adamw's count begins; 0 unless set. The
  /// optimizer of a replicated head's parameters must be set separately.
  void set_first_step(std::int64_t step) { state_.set_first_step(step); }

  /// Called before a step's first micro-batch. `labels` are those of the global batch, in [0, classes); only a head
  /// that samples reads them.
  void begin_step(std::int64_t step, std::span<const std::int64_t> labels);
  /// Phase 1; a collective call. InputError names the sample whose label is outside [0, classes), RankFailed names
  /// the sample whose embedding is not finite.
  HeadOutput forward_backward(const HeadInput& input);

  // A step ends with exactly one of the next four functions: phase 2 over all rows kept since begin_step, or none.

  /// Takes the optimizer's step.
  void update(const HeadUpdate& update);
  /// Takes no step and leaves the running statistics as they are.
  void skip_update();
  /// Fills the accumulators of a replicated head's parameters. If the optimizer then takes its step, end_margin_step
  /// follows.
  void store_gradient();
  /// Returns the gradient of this rank's rows of weights; that of a replicated head is for its own samples.
  ClassGradient gradient();
  /// Adds the sum of the squares of this rank's gradients, clamped to [-bound, bound], to an f64 element, and keeps all
  /// rows. If a class has several copies, only the first one adds its squares. A collective call.
  void add_squared_gradient(double bound, Tensor& result);
  /// Adds the rows of all samples to the margin's running statistics. A collective call.
  void end_margin_step();

  bool is_replicated() const { return config_.is_replicated(); }
  /// The parameters that the optimizer steps: weights and biases of a replicated head.
  std::vector<Parameter*> parameters() { return state_.parameters(); }
  /// The state of a sharded head; that of a replicated head is the optimizer's. Without catch_up_all, it does
  /// not have the steps that the classes outside of the samples have still to take (Unsampled::lazy).
  std::vector<StateTensor> state();
  void catch_up_all() { state_.catch_up_all(); }  // takes all deferred steps
  const IndexRange& classes() const { return state_.classes(); }
  /// The table of this rank's classes, with all deferred steps taken.
  ClassTable& table();
  /// The size of an embedding.
  std::int64_t dimension() const { return tiles_.dimension(); }

 private:
  friend class HeadPass;

  void take_sample();
  /// Multiplies the losses, which are placed as in LogitsResult, by the weights of their samples, if these have any.
  void weigh(const LogitsInput& input, Tensor& losses) const;
  Tensor loss_sum(const Tensor& losses, double scale);
  void for_each_gradient(const std::function<void(const ClassTile&, const ClassGradient&)>& consumer);
  /// Whether other ranks hold the same classes and have seen different samples.
  bool has_copies() const { return !config_.is_replicated() && copies_.size() > 1; }
  bool scatters_loss() const { return config_.loss_reduction == LossReduction::reduce_scatter; }
  void forget();

  HeadConfig config_;
  HeadWork work_;
  std::string name_;
  Device& device_;
  Communicator& ranks_;                   // the ranks that share the classes
  std::optional<Communicator> messages_;  // the same, for phase 1 in parts
  Communicator& copies_;                  // the ranks that have the same classes and different samples of a step
  Communicator& loss_;                    // those over which a micro-batch's loss is summed
  DType dtype_;
  DType product_type_;
  HeadMargin margin_;
  ClassState state_;
  HeadSample sample_;
  ClassTiles tiles_;
  std::int64_t step_ = 0;
  std::vector<KeptRows> kept_;
};

}  // namespace heddle
