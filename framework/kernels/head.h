// Kernels of the large-class head: margin logits of a class shard, their softmax sums, and the logits' gradient.
// B rows, c classes of this shard; labels are global class indices. f32 or f64.
#pragma once

#include <cstdint>

#include "framework/margin.h"
#include "framework/shard_range.h"
#include "framework/tensor.h"

namespace heddle {

class HeadKernels {
 public:
  virtual ~HeadKernels() = default;

  /// In place: cosines [B, c] -> logits z = scale * cos + class_bias [c] (undefined: none), and scale * phi(cos) at a
  /// row's own class if it is in [class_begin, class_begin + c). class_scale [c] multiplies the cosines first (1/|w_j|;
  /// undefined: 1). All [B]: where the target is here target_logit receives its logit and target_slope dphi/dcos,
  /// elsewhere they stay as they are; row_max is each row's largest logit, -inf for an empty shard.
  virtual void margin_logits(const MarginConfig& margin, const Tensor& class_scale, const Tensor& class_bias,
                             const Tensor& labels, std::int64_t class_begin, Tensor& logits, Tensor& target_logit,
                             Tensor& target_slope, Tensor& row_max) const = 0;
  /// sums [B], f64: sum over the shard of exp(z - row_max).
  virtual void exponential_sums(const Tensor& logits, const Tensor& row_max, Tensor& sums) const = 0;
  /// log_sums = row_max + ln(sums); loss = log_sums - target_logit. All [B]; sums f64. loss may be undefined.
  virtual void margin_loss(const Tensor& row_max, const Tensor& sums, const Tensor& target_logit, Tensor& log_sums,
                           Tensor& loss) const = 0;
  /// In place: logits -> gradient by the cosine, (exp(z - log_sums) - onehot) * scale * (target: target_slope) *
  /// loss_scale; times class_scale [c] where that is defined, which makes it the gradient by the product x^ . w_j.
  virtual void margin_gradient(const MarginConfig& margin, const Tensor& class_scale, const Tensor& log_sums,
                               const Tensor& target_slope, const Tensor& labels, std::int64_t class_begin,
                               double loss_scale, Tensor& logits) const = 0;

  // Of logits that are computed tile by tile and forgotten: sums are relative to a reference [B] a row, which is
  // constant or follows the largest logit so far (Milakov and Gimelshein, "Online normalizer calculation for softmax",
  // 2018).

  /// reference = max(reference, row_max), factor = exp(old - new) (0 from -inf), sums *= factor. All [B], sums f64.
  virtual void raise_reference(const Tensor& row_max, Tensor& reference, Tensor& sums, Tensor& factor) const = 0;
  /// In place: logits z [B, t] -> exp(z - reference) * class_scale [t] (undefined: 1), 0 at a row's own class.
  /// sums [B] (f64) += sum of exp(z - reference), own class included.
  virtual void accumulate_exponentials(const Tensor& reference, const Tensor& class_scale, const Tensor& labels,
                                       std::int64_t class_begin, Tensor& logits, Tensor& sums) const = 0;
  /// local [B] = label - range.begin where that is one of the range's, else 0. The range is not empty.
  virtual void local_columns(const Tensor& labels, const ShardRange& range, Tensor& local) const = 0;
  /// In place: weighted sums [B, d] of unit weights, sum of exp(z - reference) * w^ without a row's own class ->
  /// scale * loss_scale * (exp(reference - log_sums) * weighted + expm1(target_logit - log_sums) * target_slope *
  /// w^_y), the second part where the row's label is in `range`; w^_y = target_rows [B, d] * target_scale [B]
  /// (undefined: 1).
  virtual void fused_gradient(const MarginConfig& margin, double loss_scale, const Tensor& labels,
                              const ShardRange& range, const Tensor& reference, const Tensor& log_sums,
                              const Tensor& target_logit, const Tensor& target_slope, const Tensor& target_rows,
                              const Tensor& target_scale, Tensor& weighted) const = 0;
  /// gradient [B, t] by the cosine, as margin_gradient without a class_scale gives it, from the exponentials [B, t]
  /// that accumulate_exponentials gave with this reference and class_scale.
  virtual void stashed_gradient(const MarginConfig& margin, double loss_scale, const Tensor& reference,
                                const Tensor& class_scale, const Tensor& log_sums, const Tensor& target_logit,
                                const Tensor& target_slope, const Tensor& labels, std::int64_t class_begin,
                                const Tensor& exponentials, Tensor& gradient) const = 0;
};

}  // namespace heddle
