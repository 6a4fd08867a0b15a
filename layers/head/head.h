// The large-class head: a normalised linear layer over classes with a margin softmax, whose classes are sharded over
// ranks. The algorithm has two phases (after An et al., "Partial FC", 2021/2022, with the weight part deferred to the
// end of the step):
//
//   phase 1, for each micro-batch: gather the embeddings and compute the loss and the embeddings' gradient; keep the
//            normalised embeddings, labels and log-sum-exps;
//   phase 2, once per step, after the check for overflow and NaN: compute the weights' gradient over all kept rows,
//            class tile by class tile. The optimizer steps each tile while it is in the cache, and the gradient of all
//            classes is never held.
//
// Micro-batches therefore cost memory for embeddings, not for weight gradients, and the only state is weights and
// momentum, in the types that the experiment names. If the classes are sharded along only some of the mesh's axes, the
// ranks along the other axes hold copies of them: each group of ranks that shares the classes sees its own samples, and
// phase 2 sums a tile's gradient over the copies before the tile is stepped on all of them alike. The weight of a
// replicated head is a parameter like any other: phase 2 stores its gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/kernels/class_rows.h"
#include "framework/optimizers/optimizer.h"
#include "layers/description.h"
#include "layers/head/class_sample.h"
#include "layers/head/class_tiles.h"
#include "layers/head/head_config.h"
#include "layers/head/head_margin.h"
#include "layers/head/lazy_step_table.h"
#include "layers/head/logits.h"
#include "layers/parameter.h"
#include "parallel/rank.h"

namespace heddle {

/// The embeddings of this rank's part of a micro-batch, and what the loss needs to know about them.
struct HeadInput {
  Tensor embedding;                      // [b, d], f32 or f64; b may be 0
  std::span<const std::int64_t> labels;  // [b], in [0, classes)
  /// The samples of every rank that shares the classes with this one, in rank order, as positions in the global batch;
  /// this rank's own are b.
  std::vector<ShardRange> samples;
  std::int64_t global_batch = 1;  // the loss is the mean over this number of samples
  /// Called once, while the embeddings' gradient is being sent to its ranks. If nothing else has to be known about the
  /// step, phase 2 may run then. All log-sum-exps are finite.
  std::function<void()> while_reducing{};
};

/// How many embeddings of a micro-batch the first rank of the head has, and how many all ranks have that share the
/// classes with it.
struct HeadRows {
  std::int64_t of_group = 0;
  std::int64_t of_first = 0;  // 0 if it is not in the last stage
};

struct HeadOutput {
  /// []: the sum of the micro-batch's losses over all samples, divided by the global batch; undefined in a step without
  /// a loss.
  Tensor loss_sum;
  Tensor losses;              // [b]: of this rank's samples, if loss_reduction is reduce_scatter
  Tensor embedding_gradient;  // [b, d]
};

/// The bytes that a rank keeps for its classes between steps; a replicated head also keeps the gradient.
struct HeadBytes {
  std::int64_t weights = 0;
  std::int64_t gradient = 0;
  std::int64_t optimizer = 0;
};

/// The update of phase 2: it clamps each element to [-bound, bound] (0: no bound), multiplies it by `factor` and takes
/// a step.
struct HeadUpdate {
  std::int64_t step = 0;
  double learning_rate = 0;
  double bound = 0;
  double factor = 1;
};

/// The gradients of a tile's classes.
struct TileProducts {
  Tensor weight;  // [t, d]: U, the gradient by the normalised weights
  Tensor bias{};  // [t, 1]
};

struct PackedRows;

class Head {
 public:
  /// Constructed by all ranks that take part in the head (HeadConfig::axes); `dimension` is the size d of the
  /// embedding.
  Head(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension, Rank& rank,
       Construction& construction);
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  /// From the next step on, classes are sampled in this number of shards.
  void sample_in(std::int64_t shards) { config_.sample.shards = shards; }
  /// The step in which the classes are trained for the first time, where adamw's count begins; 0 unless set. The
  /// optimizer of a replicated head's weight must be set separately.
  void set_first_step(std::int64_t step) { first_step_ = step; }

  /// Called before a step's first micro-batch. `labels` are those of the global batch, in [0, classes); only a head
  /// that samples reads them.
  void begin_step(std::int64_t step, std::span<const std::int64_t> labels);
  /// Phase 1; a collective call. InputError names the sample whose label is outside [0, classes), RankFailed the sample
  /// whose embedding is not finite.
  HeadOutput forward_backward(const HeadInput& input);

  // Phase 2 over all rows kept since begin_step is one of the next four functions.

  /// Takes the optimizer's step.
  void update(const HeadUpdate& update);
  /// Takes no step and leaves the running statistics as they are.
  void skip_update();
  /// Fills the accumulator of a replicated head's weight.
  void store_weight_gradient();
  /// Returns the gradient of this rank's columns, [columns, d]; that of a replicated head is for its own samples.
  Tensor weight_gradient();
  /// Adds the sum of the squares of this rank's gradients, clamped to [-bound, bound], to an f64 element, and keeps all
  /// rows. Of several copies of a class only the first adds its squares. A collective call.
  void add_squared_gradient(double bound, Tensor& result);

  /// What the ranks of a mesh exchange for a micro-batch and at the end of a step. Of a sample's classes, it counts
  /// those that are drawn whatever the batch is.
  static std::vector<LayerExchange> exchanges(const HeadConfig& config, std::int64_t dimension, const HeadRows& rows,
                                              const Mesh& mesh, DType dtype, bool clips_norm);
  /// The bytes for this number of classes.
  static HeadBytes bytes(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension,
                         std::int64_t classes, DType dtype);
  /// The number of products of rows, classes and features in a step: two in phase 1, and those of phase 2 as often as
  /// it is computed.
  static int products(const HeadConfig& config, bool clips_norm);
  bool is_replicated() const { return config_.is_replicated(); }
  /// The parameters that the optimizer steps: the weight of a replicated head.
  std::vector<Parameter*> parameters();
  /// The state of a sharded head; that of a replicated head is the optimizer's. Lazy rows are caught up first.
  std::vector<StateTensor> state();
  ShardRange classes() const { return shard_; }
  /// The table of this rank's classes, in which lazy rows are caught up first.
  ClassTable& table();
  /// The size of an embedding.
  std::int64_t dimension() const { return table_.weight.shape()[1]; }

 private:
  void make_table();
  ShardRange own_samples(const HeadInput& input) const;
  void check_labels(const HeadInput& input) const;
  void check_finite(const HeadInput& input, const Tensor& inverse_norm) const;
  /// In steps without a loss nothing else would show that a value is not finite.
  void check_finite_gradient(const Tensor& gradient) const;
  void check_finite_sums(const HeadInput& input, const Tensor& log_sums) const;
  void take_sample();
  /// Labels as columns of this rank's tiles; those of other ranks' classes lie outside.
  Tensor columns_of(const Tensor& labels) const;
  LogitsResult compute(const LogitsInput& input) const;
  Tensor loss_sum(const Tensor& losses, double scale);
  void weight_tiles(const std::function<void(const ClassTile&, const TileProducts&)>& consumer);
  /// `packed`: the rows of each micro-batch; empty if phase 2 does not go by class.
  TileProducts tile_products(const ClassTile& tile, const std::vector<PackedRows>& packed);
  /// Whether other ranks hold the same classes and have seen different samples.
  bool has_copies() const { return !config_.is_replicated() && copies_.size() > 1; }
  static std::vector<LayerExchange> exchanges_of_copies(const HeadConfig& config, std::int64_t dimension,
                                                        const Mesh& mesh, DType dtype, bool clips_norm);
  /// The number of rows in a tile, which the size of the embedding bounds unless the experiment sets it.
  static std::int64_t tile_rows(const HeadConfig& config, std::int64_t dimension);
  /// The tile's first column, as the kept labels count columns.
  std::int64_t first_column(const ClassTile& tile) const;
  /// The gradient by the products of one micro-batch's rows with the tile's rows, [B, t].
  Tensor tile_gradient(const KeptRows& kept, const ClassTile& tile) const;
  /// The same as [t, B]: with one row per class, no operand of the weights' gradient has to be transposed.
  Tensor gradient_by_class(const KeptRows& kept, const PackedRows& packed, const ClassTile& tile) const;
  /// Whether phase 2 computes gradients by class. The kernels for a stash, several centres, a bias' gradient and
  /// negative maps need one row per sample.
  bool steps_by_class() const;
  void add_bias_gradient(const Tensor& by_product, Tensor& sum) const;
  /// [classes]; undefined if there are none.
  Tensor biases() const;
  bool scatters_loss() const { return config_.loss_reduction == LossReduction::reduce_scatter; }
  ClassStep class_step(const HeadUpdate& update) const;
  void step_unsampled(const ClassStep& step);
  /// For lazy rows: defers the step for all rows that did not take it.
  void put_off(const ClassStep& step);
  void catch_up_all();
  /// Adds the rows of all samples to the margin's running statistics.
  void end_margin_step();
  void forget();

  HeadConfig config_;
  OptimizerConfig optimizer_;
  Device& device_;
  RandomKey key_;
  Communicator& ranks_;   // the ranks that share the classes
  Communicator& copies_;  // the ranks that have the same classes and different samples
  Communicator& all_;     // both
  ShardRange shard_;
  Parameter weight_;  // a replicated head's
  ParameterPart part_;
  std::uint32_t stream_;
  bool draws_aside_;
  DType dtype_;
  DType product_type_;
  HeadMargin margin_;
  ClassTable table_;
  ClassTable bias_;  // rows of one element
  std::optional<LazyStepTable> put_off_;
  std::optional<ClassTiles> tiles_;
  std::int64_t first_step_ = 0;
  std::int64_t step_ = 0;
  std::future<ClassSample> drawing_;
  ClassSample sample_;
  std::vector<KeptRows> kept_;
};

}  // namespace heddle
