// Kernels of the large-class head: margin logits of a class shard, their softmax sums, and the logits' gradient.
// B rows, c classes of this shard; labels are global class indices. f32 or f64.
#pragma once

#include <cstdint>

#include "framework/margin.h"
#include "framework/tensor.h"

namespace heddle {

class HeadKernels {
 public:
  virtual ~HeadKernels() = default;

  /// In place: cosines [B, c] -> logits z = scale * cos, and scale * phi(cos) at a row's own class if it is in
  /// [class_begin, class_begin + c). class_scale [c] multiplies the cosines first (1/|w_j|; undefined: 1). All [B]:
  /// target_logit receives the target's logit and target_slope dphi/dcos, both 0 where the target is not here;
  /// row_max each row's largest logit, -inf for an empty shard.
  virtual void margin_logits(const MarginConfig& margin, const Tensor& class_scale, const Tensor& labels,
                             std::int64_t class_begin, Tensor& logits, Tensor& target_logit, Tensor& target_slope,
                             Tensor& row_max) const = 0;
  /// sums [B], f64: sum over the shard of exp(z - row_max).
  virtual void exponential_sums(const Tensor& logits, const Tensor& row_max, Tensor& sums) const = 0;
  /// log_sums = row_max + ln(sums); loss = log_sums - target_logit. All [B]; sums f64.
  virtual void margin_loss(const Tensor& row_max, const Tensor& sums, const Tensor& target_logit, Tensor& log_sums,
                           Tensor& loss) const = 0;
  /// In place: logits -> gradient by the cosine, (exp(z - log_sums) - onehot) * scale * (target: target_slope) *
  /// loss_scale; times class_scale [c] where that is defined, which makes it the gradient by the product x^ . w_j.
  virtual void margin_gradient(const MarginConfig& margin, const Tensor& class_scale, const Tensor& log_sums,
                               const Tensor& target_slope, const Tensor& labels, std::int64_t class_begin,
                               double loss_scale, Tensor& logits) const = 0;
};

}  // namespace heddle
