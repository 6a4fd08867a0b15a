// Kernels of the large-class head: margin logits of a class shard, their softmax sums, and the logits' gradient.
// B rows, c classes of this shard; labels are global class indices. f32 or f64.
#pragma once

#include <cstdint>

#include "framework/scalars/margin.h"
#include "framework/tensors/index_range.h"
#include "framework/tensors/tensor.h"

namespace heddle {

/// A margin as one step applies it.
struct StepMargin {
  MarginConfig config{};
  Tensor running{};    // f64: its running statistics; undefined: it has none
  Tensor parameter{};  // [B], one per row; undefined: the margin has no row statistic
};

/// Which classes the columns of logits are: c of them from class `begin` on.
struct HeadColumns {
  Tensor labels;  // [B], i64: each row's class
  std::int64_t begin = 0;
  Tensor scale{};  // [c], 1 / |w|: the cosines are the products times it; undefined: 1
  Tensor bias{};   // [c], added to the logits; undefined: 0
};

/// The weights of the rows' own classes, k for each row.
struct HeadTargets {
  Tensor labels;       // [B], i64: each row's class
  IndexRange range{};  // this shard's classes; rows of other classes are not read
  Tensor rows;         // [B * k, d]
  Tensor scale{};      // [B * k], 1 / |w|; undefined: 1
};

/// The factors of each row's loss in the loss of the step.
struct LossFactors {
  double mean_factor = 1;  // of all rows: 1 / global batch
  Tensor row_weights{};    // [B]; undefined: 1
};

/// What is known of each row once all of its logits have been seen; all [B].
struct HeadSoftmax {
  Tensor reference;     // what the exponentials are relative to
  Tensor log_sums;      // ln of the sum of the logits' exponentials
  Tensor target_logit;  // of the row's own class
  Tensor target_slope;  // dphi/dcos there
};

class HeadKernels {
 public:
  virtual ~HeadKernels() = default;

  // What a margin asks of rows, before their logits.

  /// rows [B, d]. For each row whose class is here, products [B] is the largest x . w * scale of its class's k weights
  /// and radii [B] its |x| |w|; for the others both are 0. best [B] (i64): the place of that w among the targets' rows.
  /// radii and best may be undefined.
  virtual void target_products(const HeadTargets& targets, const Tensor& rows, Tensor& products, Tensor& radii,
                               Tensor& best) const = 0;
  /// parameter [B] from statistic [B]; moments (f64 [3]) += number, sum and sum of squares of the observed values.
  virtual void row_parameters(const MarginConfig& margin, const Tensor& running, const Tensor& statistic,
                              Tensor& parameter, Tensor& moments) const = 0;
  /// The moments of a step's rows join the running statistics.
  virtual void update_running(const MarginConfig& margin, const Tensor& moments, Tensor& running) const = 0;

  // Logits of all of a rank's classes.

  /// In place: products -> logits z = scale * n(cos) + bias, and scale * phi(cos) + bias at a row's own class if that
  /// is one of the columns. Where the margin has a negative map, cosines are left instead, but for the own class, and
  /// the kernels below map them. All [B]: where the target is here target_logit receives its logit and target_slope
  /// dphi/dcos, elsewhere they stay as they are; row_max is each row's largest logit, -inf for an empty shard.
  virtual void margin_logits(const StepMargin& margin, const HeadColumns& columns, Tensor& logits, Tensor& target_logit,
                             Tensor& target_slope, Tensor& row_max) const = 0;
  /// sums [B], f64: sum over the shard of exp(z - row_max).
  virtual void exponential_sums(const StepMargin& margin, const HeadColumns& columns, const Tensor& logits,
                                const Tensor& row_max, Tensor& sums) const = 0;
  /// log_sums = row_max + ln(sums); loss = log_sums - target_logit. All [B]; sums f64. loss may be undefined.
  virtual void margin_loss(const Tensor& row_max, const Tensor& sums, const Tensor& target_logit, Tensor& log_sums,
                           Tensor& loss) const = 0;
  /// In place: logits -> gradient by the cosine, (exp(z - log_sums) - onehot) * scale * (target: target_slope, else n')
  /// * the row's factors; times the columns' scale where that is defined, which makes it the gradient by the product
  /// x^ . w_j.
  virtual void margin_gradient(const StepMargin& margin, const HeadColumns& columns, const Tensor& log_sums,
                               const Tensor& target_slope, const LossFactors& factors, Tensor& logits) const = 0;

  // Logits that are computed tile by tile and forgotten. Sums are relative to a reference [B], one per row, which is
  // constant or follows the largest logit so far (Milakov and Gimelshein, "Online normalizer calculation for softmax",
  // 2018).

  /// reference = max(reference, row_max), factor = exp(old - new) (0 from -inf), sums *= factor. All [B], sums f64.
  virtual void raise_reference(const Tensor& row_max, Tensor& reference, Tensor& sums, Tensor& factor) const = 0;
  /// In place: logits z [B, t] -> exp(z - reference) * n' * scale [t] (undefined: 1), 0 at a row's own class.
  /// sums [B] (f64) += sum of exp(z - reference), own class included.
  virtual void accumulate_exponentials(const StepMargin& margin, const HeadColumns& columns, const Tensor& reference,
                                       Tensor& logits, Tensor& sums) const = 0;
  /// margin_logits and accumulate_exponentials in one pass, for a margin without a negative map and a reference that
  /// does not follow the logits. products [B, t] are used up; exponentials [B, t] are the same tensor, or one of bf16.
  virtual void product_exponentials(const StepMargin& margin, const HeadColumns& columns, const Tensor& reference,
                                    Tensor& products, Tensor& target_logit, Tensor& target_slope, Tensor& exponentials,
                                    Tensor& sums) const = 0;
  /// local [B * k] = k * (label - range.begin) + 0 .. k - 1 where that is one of the range's, else 0 .. k - 1. The
  /// range is not empty.
  virtual void local_columns(const Tensor& labels, const IndexRange& range, Tensor& local) const = 0;
  /// In place: weighted sums [B, d] of unit weights, sum of exp(z - reference) * n' * w^ without a row's own class ->
  /// scale * factors * (exp(reference - log_sums) * weighted + expm1(target_logit - log_sums) * target_slope *
  /// w^_y), the second part where the row's class is here; w^_y = targets.rows * targets.scale, one weight per class.
  virtual void fused_gradient(const MarginConfig& margin, const LossFactors& factors, const HeadTargets& targets,
                              const HeadSoftmax& known, Tensor& weighted) const = 0;
  /// gradient [B, t] by the cosine, as margin_gradient without a scale gives it, from the exponentials [B, t] that
  /// accumulate_exponentials or product_exponentials gave with this reference and these columns. Both are of the type
  /// of log_sums, or bf16.
  virtual void stashed_gradient(const MarginConfig& margin, const HeadColumns& columns, const LossFactors& factors,
                                const HeadSoftmax& known, const Tensor& exponentials, Tensor& gradient) const = 0;

  /// For a margin without a negative map: the gradient by the cosine, which margin_logits and then margin_gradient
  /// without a scale give as [B, t], from products with one row per class, [t, B]. These are used up; gradient [t, B]
  /// is the same tensor, or one of bf16.
  virtual void gradient_by_class(const StepMargin& margin, const HeadColumns& columns, const Tensor& log_sums,
                                 const LossFactors& factors, Tensor& products, Tensor& gradient) const = 0;

  // For a margin whose target logit depends on lengths, too (L-Softmax).

  /// share [B] = dL/d(|w| |x|) * |w| |x| of each row, from its product, parameter |w| |x| and log-sum-exp.
  virtual void radial_share(const StepMargin& margin, const Tensor& products, const Tensor& log_sums,
                            const LossFactors& factors, Tensor& share) const = 0;
  /// gradient[n] += share[i] * rows[n] / |rows[n]|^2 for each i of share [B] with n = index[i] - begin a row of
  /// rows [N, d]; index undefined: i itself.
  virtual void add_radial(const Tensor& share, const Tensor& index, std::int64_t begin, const Tensor& rows,
                          Tensor& gradient) const = 0;

  // For classes with k centres each: column j of the class logits stands for rows j * k .. j * k + k - 1 of the
  // weights.

  /// products [B, c * k] * scale [c * k] (undefined: 1) -> cosines [B, c], the largest of each class, and best [B, c]
  /// (u8), which of the k that is.
  virtual void best_centres(const Tensor& products, const Tensor& scale, Tensor& cosines, Tensor& best) const = 0;
  /// The other way: gradient [B, c * k] = by_cosine [B, c] * scale at the best centre, 0 at the others.
  virtual void spread_centres(const Tensor& by_cosine, const Tensor& best, const Tensor& scale,
                              Tensor& gradient) const = 0;
};

/// The kernels of one backend, which defines each of them for its own Context (framework/backends/kernels_on.h).
template <class Context>
class HeadKernelsOn final : public HeadKernels {
 public:
  explicit HeadKernelsOn(Context& context) : context_(context) {}

  void target_products(const HeadTargets& targets, const Tensor& rows, Tensor& products, Tensor& radii,
                       Tensor& best) const override;
  void row_parameters(const MarginConfig& margin, const Tensor& running, const Tensor& statistic, Tensor& parameter,
                      Tensor& moments) const override;
  void update_running(const MarginConfig& margin, const Tensor& moments, Tensor& running) const override;
  void margin_logits(const StepMargin& margin, const HeadColumns& columns, Tensor& logits, Tensor& target_logit,
                     Tensor& target_slope, Tensor& row_max) const override;
  void exponential_sums(const StepMargin& margin, const HeadColumns& columns, const Tensor& logits,
                        const Tensor& row_max, Tensor& sums) const override;
  void margin_loss(const Tensor& row_max, const Tensor& sums, const Tensor& target_logit, Tensor& log_sums,
                   Tensor& loss) const override;
  void margin_gradient(const StepMargin& margin, const HeadColumns& columns, const Tensor& log_sums,
                       const Tensor& target_slope, const LossFactors& factors, Tensor& logits) const override;
  void raise_reference(const Tensor& row_max, Tensor& reference, Tensor& sums, Tensor& factor) const override;
  void accumulate_exponentials(const StepMargin& margin, const HeadColumns& columns, const Tensor& reference,
                               Tensor& logits, Tensor& sums) const override;
  void product_exponentials(const StepMargin& margin, const HeadColumns& columns, const Tensor& reference,
                            Tensor& products, Tensor& target_logit, Tensor& target_slope, Tensor& exponentials,
                            Tensor& sums) const override;
  void local_columns(const Tensor& labels, const IndexRange& range, Tensor& local) const override;
  void fused_gradient(const MarginConfig& margin, const LossFactors& factors, const HeadTargets& targets,
                      const HeadSoftmax& known, Tensor& weighted) const override;
  void stashed_gradient(const MarginConfig& margin, const HeadColumns& columns, const LossFactors& factors,
                        const HeadSoftmax& known, const Tensor& exponentials, Tensor& gradient) const override;
  void gradient_by_class(const StepMargin& margin, const HeadColumns& columns, const Tensor& log_sums,
                         const LossFactors& factors, Tensor& products, Tensor& gradient) const override;
  void radial_share(const StepMargin& margin, const Tensor& products, const Tensor& log_sums,
                    const LossFactors& factors, Tensor& share) const override;
  void add_radial(const Tensor& share, const Tensor& index, std::int64_t begin, const Tensor& rows,
                  Tensor& gradient) const override;
  void best_centres(const Tensor& products, const Tensor& scale, Tensor& cosines, Tensor& best) const override;
  void spread_centres(const Tensor& by_cosine, const Tensor& best, const Tensor& scale,
                      Tensor& gradient) const override;

 private:
  Context& context_;
};

}  // namespace heddle
