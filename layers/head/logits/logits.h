// The four ways to hold the logits: each is phase 1 of the head for one micro-batch whose embeddings have been
// gathered. The fourth is in logits_fused.h.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "framework/kernels/head.h"
#include "layers/head/class_tiles.h"
#include "layers/head/head_config.h"
#include "layers/head/logits/row_exchange.h"
#include "parallel/communicator/communicator.h"

namespace heddle {

/// Row i of x [n, m], as [m]; shares its memory.
inline Tensor row_of(const Tensor& x, std::int64_t i) {
  return x.rows(i, i + 1).reshape({x.shape()[1]});
}

/// The margin of the rows of a micro-batch.
struct RowMargin {
  StepMargin step{};
  Tensor products{};  // [B]: of each row with its class, if lengths matter (L-Softmax)
};

/// The input of phase 1: B rows of all ranks.
struct LogitsInput {
  const HeadConfig& config;
  Communicator& ranks;
  RowExchange exchange;             // between the ranks
  const ClassTiles& classes;        // this rank's columns
  std::vector<IndexRange> columns;  // each rank's columns among those of all ranks
  Tensor rows;                      // [B, d]
  Tensor operand;                   // the rows in the type of the products
  Tensor labels;                    // [B], columns among those of all ranks
  std::vector<std::int64_t> share;  // the number of each rank's own rows
  LossFactors loss_factors{};       // of the rows
  bool wants_loss = true;
  RowMargin margin{};

  /// This rank's columns.
  const IndexRange& own() const { return columns[static_cast<std::size_t>(ranks.rank())]; }
  /// The rows that are this rank's own.
  IndexRange own_rows() const;
};

/// The exponentials of phase 1, tile by tile, in the type in which they are multiplied.
struct Stash {
  Tensor exponentials;  // [columns * B]: [B, t] per tile, exp(z - reference) * inverse_norm, 0 at a row's own class
  Tensor references;    // [tiles, B]; [1, B] if all tiles have the same

  Tensor tile(const ClassTile& tile, std::int64_t batch) const {
    return exponentials.rows(tile.begin * batch, tile.end() * batch).reshape({batch, tile.selection.size});
  }
  Tensor reference(const ClassTile& tile) const {
    return row_of(references, references.shape()[0] == 1 ? 0 : tile.index);
  }
};

/// What phase 2 needs from a micro-batch.
struct KeptRows {
  Tensor operand;  // as in LogitsInput
  Tensor labels;
  Tensor log_sums;  // [B]
  LossFactors loss_factors{};
  StepMargin margin{};
  Tensor radial{};  // [B]: the part of the weights' gradient that is due to lengths (L-Softmax)
  // Only with a stash.
  Tensor target_logit{};  // [B]
  Tensor target_slope{};  // [B], 0 if the row's class is on another rank
  Stash stash{};
};

struct LogitsResult {
  KeptRows kept;
  Tensor loss;      // [B], or of this rank's rows if loss_reduction is reduce_scatter; undefined if not wanted
  Tensor gradient;  // [B, d], by the rows: this rank's term of a sum over the ranks
};

/// Computes the logits in the way that the configuration names.
LogitsResult compute_logits(const LogitsInput& input);

/// Rank 0 gathers all logits, computes the loss and scatters the logits' gradients.
LogitsResult gathered_logits(const LogitsInput& input);
/// An all-to-all gives each rank all classes' logits of its share of the rows, and another one returns the gradients.
LogitsResult transposed_logits(const LogitsInput& input);
/// The ranks exchange one maximum and two sums per row.
LogitsResult sharded_logits(const LogitsInput& input);

/// The log-sum-exps [B] and losses, as in LogitsResult.
struct RowLosses {
  Tensor log_sums;
  Tensor loss;
  Tensor target_logit{};  // [B], of all ranks; only if it came with the sums
};
/// The exchange of each rank's sums of exponentials, relative to a reference, and of the logits of its targets.
class RowSums {
 public:
  RowSums() = default;
  /// Starts it.
  RowSums(const LogitsInput& input, Tensor sums, Tensor target_logit);
  /// An exchange that is over: `both` [2, B] f64 are the sums and target logits of all ranks.
  explicit RowSums(Tensor both) : exchange_([both = std::move(both)] { return both; }) {}
  /// Waits for it; once. The reference is the same on all ranks.
  RowLosses losses(const LogitsInput& input, const Tensor& reference);
  /// Waits until all ranks have called `losses`.
  void finish() { exchange_.finish(); }

 private:
  /// Whether the target logits have an exchange of their own, or none.
  static bool is_apart(const LogitsInput& input);

  StartedExchange exchange_;
  Tensor target_logit_;
};

/// What phase 2 needs, except for a stash.
KeptRows kept_rows(const LogitsInput& input, const RowLosses& losses);

/// The weights of each row's class, all centres of it, if they are on this rank: [B * centres, d]; undefined if this
/// rank has no classes.
ClassTile target_tile(const LogitsInput& input);

/// A constant that can be subtracted from all possible logits so that no sum of their exponentials, times the largest
/// inverse norm, overflows, and the smallest exponential does not vanish. If empty, the running maximum of the logits
/// must be subtracted.
std::optional<double> constant_reference(const HeadConfig& config, DType dtype);

}  // namespace heddle
