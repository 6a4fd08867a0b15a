// The head's margin: the statistics of a micro-batch's rows that it needs before the logits, and its running statistics
// (framework/scalars/margin.h). These are the same on all ranks and change only at the end of a step: all micro-batches
// of a step use the ones with which the step began.
#pragma once

#include <string>
#include <vector>

#include "layers/head/logits/logits.h"
#include "layers/parameter.h"

namespace heddle {

class HeadMargin {
 public:
  /// `apart`: axes along which the other ranks have no head; `name`: of the head.
  HeadMargin(const MarginConfig& config, Device& device, AxisSet apart, std::string name);

  /// Drops the rows since the end of the last step.
  void begin_step();
  /// Whether the margin depends on the lengths of the embeddings.
  bool needs_inverse_norms() const { return row_statistic(config_) == RowStatistic::inverse_norm; }
  /// The margin of a micro-batch's rows. `inverse_norms` [B] are those of all rows, if they are needed. A collective
  /// call if the margin depends on the products with the rows' classes.
  RowMargin of_rows(const LogitsInput& input, const Tensor& inverse_norms);
  /// Exchanges the statistics of rows among these ranks, each of which has seen different rows. A collective call.
  void add_rows_of(Communicator& ranks);
  /// Adds the rows since begin_step to the running statistics.
  void end_step();
  std::vector<StateTensor> state() const;

 private:
  /// The statistics of all rows, on all ranks.
  Tensor target_statistics(const LogitsInput& input) const;

  MarginConfig config_;
  Device& device_;
  AxisSet apart_;
  std::string name_;
  Tensor running_;  // f64; undefined: the margin has none
  Tensor moments_;  // f64 [3]
};

/// The derivative of the loss by the lengths of embeddings and weights, [B], as HeadKernels::add_radial takes it;
/// undefined if lengths do not matter.
Tensor radial_share(const LogitsInput& input, const Tensor& log_sums);

}  // namespace heddle
