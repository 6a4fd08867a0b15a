// The large-class head: a normalised linear layer over classes with a margin softmax, its classes sharded over ranks.
// One algorithm in two phases (after An et al., "Partial FC", 2021/2022, with the weight part put off to the step's
// end):
//
//   phase 1, for each micro-batch: gather the embeddings, loss and the embeddings' gradient; keep the normalised
//            embeddings, labels and log-sum-exps;
//   phase 2, once a step, after the verdict on it: the weights' gradient over all kept rows, class tile by class tile;
//            each tile is stepped by the optimizer while it is in the cache, and no gradient of all classes is ever
//            held.
//
// So micro-batches cost embeddings, not weight gradients, and state is weights and momentum in the types that the
// experiment names. Where the classes are shared along some of the mesh's axes only, the ranks along the others hold
// copies of them: each group that shares the classes sees its own samples, and phase 2 adds up a tile's gradient over
// the copies before the tile is stepped, alike on all of them. A replicated head's weight is a parameter like others:
// phase 2 stores its gradient.
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

/// Embeddings of this rank's part of a micro-batch, and what the loss needs to know of them.
struct HeadInput {
  Tensor embedding;                      // [b, d], f32 or f64; b may be 0
  std::span<const std::int64_t> labels;  // [b], in [0, classes)
  /// Positions in the global batch, of every rank that shares the classes with this one, in rank order; its own are b.
  std::vector<ShardRange> samples;
  std::int64_t global_batch = 1;  // the loss is the mean over so many samples
  /// Called once, while the embeddings' gradient is on its way to its ranks: where nothing about the step is still to
  /// be known, phase 2 may run then. All log-sum-exps are finite.
  std::function<void()> while_reducing{};
};

/// Whose a micro-batch's embeddings are: of the first rank that has a part in the head, and of all that share the
/// classes with it.
struct HeadRows {
  std::int64_t of_group = 0;
  std::int64_t of_first = 0;  // none where it is not of the last stage
};

struct HeadOutput {
  /// []: sum of the micro-batch's losses over all samples, divided by the global batch; none in a step without.
  Tensor loss_sum;
  Tensor losses;              // [b]: of this rank's samples, with loss_reduction reduce_scatter
  Tensor embedding_gradient;  // [b, d]
};

/// What a rank keeps of its classes between steps; of a replicated head the gradient, too.
struct HeadBytes {
  std::int64_t weights = 0;
  std::int64_t gradient = 0;
  std::int64_t optimizer = 0;
};

/// What phase 2 does with the gradients: each element into [-bound, bound] (0: no bound), times `factor`, then a step.
struct HeadUpdate {
  std::int64_t step = 0;
  double learning_rate = 0;
  double bound = 0;
  double factor = 1;
};

/// Gradients of a tile's classes.
struct TileProducts {
  Tensor weight;  // [t, d]: U, by the weights divided by their norms
  Tensor bias{};  // [t, 1]
};

struct PackedRows;

class Head {
 public:
  /// Made by all ranks that have a part in the head (HeadConfig::axes); dimension d is the embedding's size.
  Head(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension, Rank& rank,
       Construction& construction);
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  /// From the next step on classes are sampled in so many shards.
  void sample_in(std::int64_t shards) { config_.sample.shards = shards; }
  /// The step in which the classes are trained for the first time: adamw's count begins there. 0 unless told; what
  /// steps a replicated head must be told by itself.
  void set_first_step(std::int64_t step) { first_step_ = step; }

  /// Before a step's first micro-batch; `labels`: of the global batch, in [0, classes), read by a head that samples.
  void begin_step(std::int64_t step, std::span<const std::int64_t> labels);
  /// Phase 1. A collective call. InputError names the sample of a label outside [0, classes), RankFailed that of an
  /// embedding that is not finite.
  HeadOutput forward_backward(const HeadInput& input);

  /// Phase 2 over all rows kept since begin_step, one of:
  void update(const HeadUpdate& update);
  void skip_update();  ///< nothing is stepped, and running statistics learn nothing of the step;
  /// of a replicated head: fills the weight's accumulator;
  void store_weight_gradient();
  /// gives the gradient of this rank's columns, [columns, d]; a replicated head's is that of its own samples.
  Tensor weight_gradient();
  /// Adds the sum of the squares of this rank's gradients, each into [-bound, bound], to a f64 element; keeps all rows.
  /// The first of the copies of a class adds them. A collective call.
  void add_squared_gradient(double bound, Tensor& result);

  /// What the ranks of a mesh tell each other about a micro-batch, and at a step's end. Of a sample's classes it counts
  /// those that are drawn whatever the batch is.
  static std::vector<LayerExchange> exchanges(const HeadConfig& config, std::int64_t dimension, const HeadRows& rows,
                                              const Mesh& mesh, DType dtype, bool clips_norm);
  /// Of so many classes.
  static HeadBytes bytes(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension,
                         std::int64_t classes, DType dtype);
  /// Products of rows, classes and features in a step: two of phase 1, and each time that phase 2 is computed its own.
  static int products(const HeadConfig& config, bool clips_norm);
  bool is_replicated() const { return config_.is_replicated(); }
  /// Those that the optimizer steps: a replicated head's weight.
  std::vector<Parameter*> parameters();
  /// What a sharded head keeps; of a replicated one the optimizer does. Lazy rows are caught up first.
  std::vector<StateTensor> state();
  ShardRange classes() const { return shard_; }
  /// Lazy rows are caught up first.
  ClassTable& table();
  /// Of an embedding.
  std::int64_t dimension() const { return table_.weight.shape()[1]; }

 private:
  void make_table();
  ShardRange own_samples(const HeadInput& input) const;
  void check_labels(const HeadInput& input) const;
  void check_finite(const HeadInput& input, const Tensor& inverse_norm) const;
  /// In steps without a loss nothing else would tell.
  void check_finite_gradient(const Tensor& gradient) const;
  void check_finite_sums(const HeadInput& input, const Tensor& log_sums) const;
  void take_sample();
  /// Labels as columns of this rank's tiles: those of others' classes lie outside.
  Tensor columns_of(const Tensor& labels) const;
  LogitsResult compute(const LogitsInput& input) const;
  Tensor loss_sum(const Tensor& losses, double scale);
  void weight_tiles(const std::function<void(const ClassTile&, const TileProducts&)>& consumer);
  /// `packed`: of each micro-batch's rows; empty where phase 2 does not go by class.
  TileProducts tile_products(const ClassTile& tile, const std::vector<PackedRows>& packed);
  /// Whether others hold the same classes and have seen other samples.
  bool has_copies() const { return !config_.is_replicated() && copies_.size() > 1; }
  static std::vector<LayerExchange> exchanges_of_copies(const HeadConfig& config, std::int64_t dimension,
                                                        const Mesh& mesh, DType dtype, bool clips_norm);
  /// Rows of a tile; the embedding's size bounds them where the experiment does not.
  static std::int64_t tile_rows(const HeadConfig& config, std::int64_t dimension);
  /// As kept labels count them.
  std::int64_t first_column(const ClassTile& tile) const;
  /// By the products of one micro-batch's rows with the tile's, [B, t].
  Tensor tile_gradient(const KeptRows& kept, const ClassTile& tile) const;
  /// The same [t, B]: with a class a row the weights and their gradient are multiplied as they lie.
  Tensor gradient_by_class(const KeptRows& kept, const PackedRows& packed, const ClassTile& tile) const;
  /// Whether phase 2 takes that way: the kernels of a stash, of several centres, of a bias' gradient and of negative
  /// maps want a row a row.
  bool steps_by_class() const;
  void add_bias_gradient(const Tensor& by_product, Tensor& sum) const;
  /// [classes]; none without.
  Tensor biases() const;
  bool scatters_loss() const { return config_.loss_reduction == LossReduction::reduce_scatter; }
  ClassStep class_step(const HeadUpdate& update) const;
  void step_unsampled(const ClassStep& step);
  /// Of lazy rows: the step that was done is put off by all that did not take it.
  void put_off(const ClassStep& step);
  void catch_up_all();
  /// The margin's running statistics learn of the rows of all samples.
  void end_margin_step();
  void forget();

  HeadConfig config_;
  OptimizerConfig optimizer_;
  Device& device_;
  RandomKey key_;
  Communicator& ranks_;   // that share the classes
  Communicator& copies_;  // that have the same classes and other samples
  Communicator& all_;     // both
  ShardRange shard_;
  Parameter weight_;  // of a replicated head
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
