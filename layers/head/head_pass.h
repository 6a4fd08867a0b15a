// Phase 1 of the head for one micro-batch, in parts: the embeddings are gathered, each rank adds up its classes, the
// sums are exchanged, and the embeddings' gradients are added up. If the head works in one or two exchanges (HeadWork),
// a part waits for what other ranks have computed in the part before, so that ranks may compute something else in
// between. All ranks call the parts of all micro-batches in the same order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "layers/head/head.h"
#include "layers/head/logits/logits_fused.h"

namespace heddle {

class HeadPass {
 public:
  /// Starts to gather the embeddings. The labels of `input` are read here only. The errors are those of
  /// Head::forward_backward.
  HeadPass(Head& head, HeadInput input);
  HeadPass(const HeadPass&) = delete;
  HeadPass& operator=(const HeadPass&) = delete;

  /// Adds up this rank's classes, and starts to exchange the sums; in one exchange, also the terms of the gradient.
  void sum();
  /// With the sums of all ranks: keeps the rows for phase 2. Unless the head works in one exchange, computes this
  /// rank's part of the embeddings' gradient, and starts to add up the parts.
  void compute_gradient();
  /// Waits for the gradient; once. In one exchange it may be called before `compute_gradient`, after `sum`.
  HeadOutput output();
  /// Waits until all ranks have called `compute_gradient`, and have thus read what this one has sent until then.
  void finish_gradient();
  /// The same of `output`.
  void finish_output();

 private:
  bool is_in_one_exchange() const { return head_.work_ == HeadWork::one_exchange; }
  LogitsInput logits_input(const HeadInput& input) const;
  /// Waits for the sums, and keeps the rows; once. Returns this rank's part of the gradient, if there is one.
  Tensor keep_rows();
  /// The gradient by this rank's normalised embeddings.
  Tensor summed_gradient();

  Head& head_;
  Tensor embedding_;                 // [b, d]
  std::vector<IndexRange> samples_;  // of all ranks
  std::int64_t global_batch_;
  std::function<void()> while_reducing_;
  Tensor embedding_scale_;  // [b]: the inverse norms
  LogitsInput logits_;
  // The exchanges, in the order of their starts.
  StartedExchange rows_;
  StartedExchange labels_;
  StartedExchange scales_;  // if the margin depends on them
  StartedExchange gradient_;
  StartedExchange targets_;  // the second term, in one exchange
  bool has_kept_rows_ = false;
  std::unique_ptr<FusedLogits> fused_;  // null: the logits are computed at once, in `compute_gradient`
  Tensor radial_;                       // [B], as from radial_share
  Tensor loss_;                         // as in LogitsResult
};

}  // namespace heddle
