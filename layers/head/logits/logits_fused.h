// The fourth way to hold the logits (logits.h): those of one class tile at a time, and sums over the tiles. With
// cosines the largest logit is bounded, and one exchange between the ranks is enough.
#pragma once

#include "layers/head/logits/logits.h"
#include "layers/head/logits/tile_logits.h"

namespace heddle {

class FusedLogits {
 public:
  /// `input` must outlive this.
  explicit FusedLogits(const LogitsInput& input);

  /// Visits the tiles and starts the exchange of the sums; without messages only if the reference is constant.
  void sum();
  /// Waits for the sums of all ranks. The result has no gradient if its terms have been taken.
  LogitsResult finish();
  /// This rank's part of the embeddings' gradient without the factors that depend on the sums of all ranks.
  struct Terms {
    Tensor weighted;  // [B, d]: sum of exp(z - reference) * w^ over the classes, without a row's own
    Tensor targets;   // [B, d]: target_slope * w^_y, 0 if the row's class is on another rank
  };
  /// After `sum` of a head that normalises; once.
  Terms take_terms();
  /// After `finish`: the gradient of some rows from the sums of all ranks' terms, of which `weighted` is overwritten.
  Tensor gradient_of(const IndexRange& rows, Terms sums) const;
  /// Waits until all ranks have called `finish`.
  void finish_exchange() {
    exchange_.finish();
    of_ranks_.finish();
  }

 private:
  void add(const ClassTile& tile);
  /// The exponentials of the logits, and the sums and own logits of the rows so far, from products. The exponentials
  /// are written to `kept` if it is defined.
  void turn_into_exponentials(TileLogits& logits, Tensor& kept);
  /// Raises the reference to the larger of both, and rescales the sums that were computed with the old one.
  void rise(const Tensor& row_max);
  /// Starts to send this rank's references, sums and target logits to all others.
  void start_messages();
  /// Receives those of all ranks, and raises this rank's reference to the largest.
  void finish_messages();
  /// Turns the weighted sums of the classes into the gradient, and adds the rows' own classes, which the tiles left
  /// out.
  void add_targets(const Tensor& log_sums);
  HeadTargets targets_of(const ClassTile& tile) const;
  /// The best centre of each row's class.
  ClassTile best_targets() const;

  const HeadKernels& kernels() const;
  std::int64_t rows() const { return input_.rows.shape()[0]; }
  Tensor empty_row() const;
  Tensor row(double value) const;

  const LogitsInput& input_;
  Device& device_;
  bool follows_;
  Tensor reference_;     // [B]
  Tensor target_logit_;  // [B], 0 if the row's class is on another rank
  Tensor target_slope_;  // [B]
  Tensor sums_;          // [B], f64
  Tensor weighted_;      // [B, d]: sum of exp(z - reference) * w^
  Stash stash_;
  RowSums exchange_;
  StartedExchange of_ranks_;  // messages where the reference follows the logits: [3 * ranks, B] f64
  RowLosses losses_;
};

}  // namespace heddle
