// The large-class head: a normalised linear layer over classes with a margin softmax, its classes sharded over all
// ranks of the mesh. One algorithm in two phases (after An et al., "Partial FC", 2021/2022, with the weight part
// put off to the step's end):
//
//   phase 1, for each micro-batch: gather the embeddings, loss and the embeddings' gradient; keep the normalised
//            embeddings, labels and log-sum-exps;
//   phase 2, once a step: the weights' gradient over all kept rows, class tile by class tile, each tile handed to a
//            consumer.
//
// So micro-batches cost embeddings, not weight gradients.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "framework/margin.h"
#include "layers/description.h"
#include "layers/parameter.h"
#include "parallel/rank.h"
#include "parallel/shard.h"

namespace heddle {

class Describer;

/// Where the logits live. All give the same loss and gradients.
enum class Logits {
  gathered,  // each rank's logits are concatenated on rank 0, which computes the loss: the naive way
  sharded    // they stay where they are; ranks exchange a maximum and two sums a row
};

/// Which ranks share the classes.
enum class HeadRanks {
  all,        // of the mesh, those of all pipeline stages
  last_stage  // those that have the embeddings
};

struct HeadConfig {
  std::int64_t classes = 0;
  Logits logits = Logits::sharded;
  HeadRanks ranks = HeadRanks::all;
  MarginConfig margin;
  bool normalize = true;            // cosines; else plain products of embedding and weight
  double initial_deviation = 0.01;  // of the normal initial weights
};

void describe(Describer& d, HeadConfig& config);

/// Embeddings of this rank's part of a micro-batch, and what the loss needs to know of them.
struct HeadInput {
  Tensor embedding;                      // [b, d], f32 or f64; b may be 0
  std::span<const std::int64_t> labels;  // [b], in [0, classes)
  std::vector<std::int64_t> rows;        // b of every rank of the head, in rank order
  std::int64_t first_sample = 0;         // position in the global batch, for messages
  std::int64_t global_batch = 1;         // the loss is the mean over so many samples
};

struct HeadOutput {
  Tensor loss_sum;            // []: sum of the micro-batch's losses over the head's ranks, divided by the global batch
  Tensor embedding_gradient;  // [b, d]
};

/// Receives the gradient of the weight's rows begin .. begin + n - 1 of this rank's shard.
using TileConsumer = std::function<void(std::int64_t begin, const Tensor& gradient)>;

class Head {
 public:
  /// The mesh axes whose ranks share the classes.
  static AxisSet axes(const HeadConfig& config);
  /// These ranks share the classes, this one among them; dimension d is the embedding's size.
  Head(const HeadConfig& config, std::int64_t dimension, Rank& rank, Construction& construction);

  /// Phase 1. A collective call. InputError names the sample of a label outside [0, classes).
  HeadOutput forward_backward(const HeadInput& input);
  /// Phase 2 over all rows kept since the last call.
  void weight_gradient(const TileConsumer& consumer);
  /// Phase 2 with a gradient as the consumer: fills the weight's accumulator.
  void store_weight_gradient();

  /// What the ranks of a mesh tell each other about a micro-batch of so many rows.
  static std::vector<LayerExchange> exchanges(const HeadConfig& config, std::int64_t dimension, std::int64_t rows,
                                              const Mesh& mesh, DType dtype);
  std::vector<Parameter*> parameters() { return {&weight_}; }
  ShardRange classes() const { return shard_; }
  /// Of an embedding.
  std::int64_t dimension() const { return weight_.part.whole[1]; }

 private:
  struct Kept {
    Tensor rows;      // [B, d] normalised embeddings of all ranks
    Tensor labels;    // [B]
    Tensor log_sums;  // [B]
    double loss_scale;
  };
  struct RowResult {
    Tensor log_sums;  // [B]
    Tensor loss;      // [B]
  };

  void check_labels(const HeadInput& input) const;
  /// Turns raw products [B, c] into their gradient in place, leaving the logits on their ranks.
  RowResult sharded_loss(Tensor& logits, const Tensor& labels, double loss_scale);
  /// The same by way of rank 0.
  RowResult gathered_loss(Tensor& logits, const Tensor& labels, double loss_scale);
  Tensor class_scale();

  HeadConfig config_;
  Communicator& ranks_;
  ShardRange shard_;
  Parameter weight_;
  Tensor inverse_norm_;  // [c] of this step's weights; none until asked for
  std::vector<Kept> kept_;
};

}  // namespace heddle
