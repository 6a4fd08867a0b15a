// The four ways to hold the logits, each phase 1 of the head for one micro-batch, after the embeddings were gathered.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/kernels/head.h"
#include "layers/head/class_tiles.h"
#include "layers/head/head_config.h"
#include "parallel/communicator/communicator.h"

namespace heddle {

/// A margin of the rows of a micro-batch.
struct RowMargin {
  StepMargin step{};
  Tensor products{};  // [B]: of each row with its class, where lengths matter (L-Softmax)
};

/// What they start from. B rows of all ranks.
struct LogitsInput {
  const HeadConfig& config;
  Communicator& ranks;
  const ClassTiles& classes;        // this rank's columns
  std::vector<ShardRange> columns;  // of each rank, among all ranks'
  Tensor rows;                      // [B, d]
  Tensor factors;                   // the same in the type that is multiplied in
  Tensor labels;                    // [B], columns among all ranks'
  std::vector<std::int64_t> share;  // how many of the rows are each rank's own
  double loss_scale = 1;            // the gradient's factor: 1 / global batch
  bool wants_loss = true;
  RowMargin margin{};

  /// This rank's columns.
  const ShardRange& own() const { return columns[static_cast<std::size_t>(ranks.rank())]; }
  /// Which of the rows are this rank's.
  ShardRange own_rows() const;
};

/// The exponentials of phase 1, tile by tile.
struct Stash {
  Tensor exponentials;  // [columns * B]: of each tile [B, t], exp(z - reference) * inverse_norm, 0 at a row's own class
  Tensor references;    // [tiles, B]; [1, B] where all tiles have one

  Tensor tile(const ClassTile& tile, std::int64_t batch) const {
    return exponentials.rows(tile.begin * batch, tile.end() * batch).reshape({batch, tile.selection.size});
  }
  Tensor reference(const ClassTile& tile) const {
    const std::int64_t row = references.shape()[0] == 1 ? 0 : tile.index;
    return references.rows(row, row + 1).reshape({references.shape()[1]});
  }
};

/// What phase 2 needs of a micro-batch.
struct KeptRows {
  Tensor factors;  // as LogitsInput has them
  Tensor labels;
  Tensor log_sums;  // [B]
  double loss_scale = 1;
  StepMargin margin{};
  Tensor radial{};  // [B]: what lengths add to the weights' gradient (L-Softmax)
  // Of a stash only.
  Tensor target_logit{};  // [B]
  Tensor target_slope{};  // [B], 0 where the row's class is not here
  Stash stash{};
};

struct LogitsResult {
  KeptRows kept;
  Tensor loss;      // [B], or with loss_reduction reduce_scatter of this rank's rows; none if it was not wanted
  Tensor gradient;  // [B, d], by the rows: this rank's part of a sum over the ranks
};

/// Rank 0 gets all logits, computes, and sends their gradients back.
LogitsResult gathered_logits(const LogitsInput& input);
/// An all-to-all to all classes of a share of the rows, and back.
LogitsResult transposed_logits(const LogitsInput& input);
/// The ranks exchange a maximum and two sums a row.
LogitsResult sharded_logits(const LogitsInput& input);
/// The same, with a class tile's logits at a time. The largest logit is bounded where cosines are: then one exchange.
LogitsResult fused_logits(const LogitsInput& input);

/// Log-sum-exps [B] and losses, as LogitsResult has them, of each rank's sums of exponentials relative to a reference
/// and its targets' logits.
struct RowLosses {
  Tensor log_sums;
  Tensor loss;
};
RowLosses losses_of(const LogitsInput& input, const Tensor& reference, const Tensor& sums, const Tensor& target_logit);
/// What phase 2 needs, without a stash.
KeptRows kept_rows(const LogitsInput& input, const RowLosses& losses);

/// The weights of each row's class that are here, all centres of it: [B * centres, d]; undefined without classes here.
ClassTile target_tile(const LogitsInput& input);

/// What can be taken off all logits, whatever they are, so that neither a sum of their exponentials over the longest
/// inverse norm overflows nor the smallest exponential vanishes. None: the largest logit so far must be followed.
std::optional<double> constant_reference(const HeadConfig& config, DType dtype);

}  // namespace heddle
