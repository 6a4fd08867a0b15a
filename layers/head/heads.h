// The heads of a training, one for each of its data sets, on the embeddings of one backbone. Each head sees the samples
// of its own set only: its rows of the embeddings are gathered before its first product, and its gradient is added to
// these rows. The loss of the training is the sum over the heads of loss_weight times the mean over the head's samples.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/tensors/batch_shares.h"
#include "layers/head/head.h"
#include "layers/head/head_pass.h"

namespace heddle {

struct HeadOfSet {
  std::string name;  // of the data set
  HeadConfig config;
};

/// The embeddings of this rank's part of a micro-batch, and what the losses need to know about them.
struct HeadsInput {
  Tensor embedding;                      // [b, d], f32 or f64; b may be 0
  std::span<const std::int64_t> labels;  // [b], each of them one of the classes of its sample's head
  /// The samples of a rank, as positions in the global batch.
  std::function<IndexRange(int rank)> samples;
  std::int64_t global_batch = 1;
  /// The weights of the losses of a rank's samples that belong to a head; empty: 1. If there is no function, all are 1.
  std::function<std::vector<double>(std::size_t head, int rank)> weights{};
  /// HeadInput::while_reducing of each head; none at all if it is empty.
  std::vector<std::function<void()>> while_reducing{};
};

struct HeadsOutput {
  /// HeadOutput::loss_sum of each head, without its loss_weight.
  std::vector<Tensor> loss_sums;
  Tensor embedding_gradient;  // [b, d]: of the sum of the heads' weighted losses
};

class Heads;

/// Phase 1 of all heads for one micro-batch, in the parts of HeadPass, whose functions these call for each head.
class HeadsPass {
 public:
  HeadsPass(Heads& heads, Tensor embedding);

  void start(const HeadsInput& input);
  void sum();
  void compute_gradient();
  /// The losses of all heads, and the sum of their gradients; once.
  HeadsOutput output();
  void finish_gradient();
  void finish_output();

  /// Each head after the other, all of its parts.
  HeadsOutput at_once(const HeadsInput& input);

 private:
  void start(std::size_t head, const HeadsInput& input);
  void add_output(std::size_t head);

  Heads& heads_;
  Tensor embedding_;
  std::vector<std::unique_ptr<HeadPass>> passes_;
  std::vector<Tensor> rows_;  // of each head's samples in the embeddings; undefined: all
  HeadsOutput output_;
};

class Heads {
 public:
  /// Constructed by all ranks that take part in the heads, in the order of the data sets. `shares` divide each batch
  /// over them. The parameters of a single head are called `head`, those of several `head.NAME` by their sets.
  Heads(std::vector<HeadOfSet> heads, BatchShares shares, const OptimizerConfig& optimizer, std::int64_t dimension,
        Rank& rank, Construction& construction, HeadWork work = HeadWork::at_once);

  std::size_t size() const { return heads_.size(); }
  Head& operator[](std::size_t head) { return *heads_[head]; }
  /// The size of an embedding.
  std::int64_t dimension() const { return heads_.front()->dimension(); }
  bool samples() const;
  /// Called before a step's first micro-batch. `labels` are those of the global batch; only heads that sample read
  /// them.
  void begin_step(std::int64_t step, std::span<const std::int64_t> labels);
  /// Phase 1 of each head, in their order; a collective call.
  HeadsOutput forward_backward(const HeadsInput& input);
  std::vector<Parameter*> parameters();
  /// The state of the sharded heads (Head::state).
  std::vector<StateTensor> state();

 private:
  friend class HeadsPass;

  HeadInput input_of(std::size_t head, const HeadsInput& input, Tensor embedding,
                     std::span<const std::int64_t> labels) const;

  std::vector<HeadOfSet> of_sets_;
  BatchShares shares_;
  Rank& rank_;
  std::vector<std::unique_ptr<Head>> heads_;
};

}  // namespace heddle
