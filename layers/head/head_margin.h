// The head's margin: what it asks of a micro-batch's rows before their logits, and the running statistics that it
// learns (framework/scalars/margin.h). They are the same on all ranks, and change at a step's end only: all
// micro-batches of a step see those that it began with.
#pragma once

#include <vector>

#include "layers/head/logits.h"
#include "layers/parameter.h"

namespace heddle {

class HeadMargin {
 public:
  /// `apart`: axes along which other ranks have no head.
  HeadMargin(const MarginConfig& config, Device& device, AxisSet apart);

  /// Forgets the rows since the last step's end.
  void begin_step();
  /// Of a micro-batch's rows, whose embeddings have these inverse norms (of this rank's own rows). A collective call.
  RowMargin of_rows(const LogitsInput& input, const Tensor& inverse_norms);
  /// The rows that these ranks have seen, each other ones, count for all of them. A collective call.
  void add_rows_of(Communicator& ranks);
  /// The rows since begin_step join the running statistics.
  void end_step();
  std::vector<StateTensor> state() const;

 private:
  /// Of all rows, known to all ranks.
  Tensor target_statistics(const LogitsInput& input) const;

  MarginConfig config_;
  Device& device_;
  AxisSet apart_;
  Tensor running_;  // f64; undefined: the margin has none
  Tensor moments_;  // f64 [3]
};

/// What the loss changes by the lengths of embeddings and weights, as HeadKernels::add_radial takes it, [B]; undefined
/// where lengths do not matter.
Tensor radial_share(const LogitsInput& input, const Tensor& log_sums);

}  // namespace heddle
