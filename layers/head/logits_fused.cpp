#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/device.h"
#include "framework/ops/linear.h"
#include "layers/head/logits.h"

namespace heddle {

namespace {

/// What the tiles add up to.
class FusedRows {
 public:
  explicit FusedRows(const LogitsInput& input)
      : input_(input),
        device_(input.rows.device()),
        follows_(!constant_reference(input.config, input.rows.dtype())),
        reference_(row(
            constant_reference(input.config, input.rows.dtype()).value_or(-std::numeric_limits<double>::infinity()))),
        target_logit_(row(0)),
        target_slope_(row(0)),
        sums_(Tensor::zeros(device_, {rows()}, DType::f64)),
        weighted_(Tensor::zeros_like(input.rows)) {
    if (input.config.stash)
      stash_ = {Tensor::empty(device_, {input.classes.size() * rows()}, input.rows.dtype()),
                Tensor::empty(device_, {follows_ ? input.classes.tiles() : 1, rows()}, input.rows.dtype())};
  }

  void add(const ClassTile& tile) {
    Tensor logits = input_.config.stash ? stash_.tile(tile, rows())
                                        : Tensor::empty(device_, {rows(), tile.selection.size}, input_.rows.dtype());
    gemm(input_.rows, false, tile.rows, true, 1, 0, logits);
    Tensor row_max = empty_row();
    kernels().margin_logits(input_.config.margin, tile.inverse_norm, tile.bias, input_.labels,
                            input_.own().begin + tile.begin, logits, target_logit_, target_slope_, row_max);
    rise(row_max);
    kernels().accumulate_exponentials(reference_, tile.inverse_norm, input_.labels, input_.own().begin + tile.begin,
                                      logits, sums_);
    gemm(logits, false, tile.rows, false, 1, 1, weighted_);
    if (input_.config.stash && (follows_ || tile.begin == 0))
      stash_.references.rows(tile.index, tile.index + 1).reshape({rows()}).copy_from(reference_);
  }

  LogitsResult finish() {
    if (follows_) rise(input_.ranks.all_reduce(reference_, Reduction::max));
    const SharedSums shared = share_sums(input_, sums_, target_logit_);
    Tensor log_sums = empty_row();
    Tensor loss = input_.wants_loss ? empty_row() : Tensor();
    kernels().margin_loss(reference_, shared.sums, shared.target_logit, log_sums, loss);
    add_targets(log_sums);
    LogitsResult result{.kept = {input_.rows, input_.labels, log_sums, input_.loss_scale, {}, {}, {}},
                        .loss = loss,
                        .gradient = weighted_};
    if (input_.config.stash) {
      result.kept.target_logit = target_logit_;
      result.kept.target_slope = target_slope_;
      result.kept.stash = stash_;
    }
    return result;
  }

 private:
  const HeadKernels& kernels() const { return device_.backend().head(); }
  std::int64_t rows() const { return input_.rows.shape()[0]; }
  Tensor empty_row() const { return Tensor::empty(device_, {rows()}, input_.rows.dtype()); }
  Tensor row(double value) const { return Tensor::full(device_, {rows()}, input_.rows.dtype(), value); }

  /// The reference becomes the larger of both; what was summed up by the old one is rescaled.
  void rise(const Tensor& row_max) {
    if (!follows_) return;
    Tensor factor = empty_row();
    kernels().raise_reference(row_max, reference_, sums_, factor);
    device_.backend().elementwise().binary(BinaryOp::multiply, weighted_, factor.reshape({rows(), 1}), weighted_);
  }

  /// Weighted sums of the classes become the gradient; the rows' own classes join, which the tiles left out.
  void add_targets(const Tensor& log_sums) {
    ClassTile targets;
    if (input_.classes.size() > 0) {
      Tensor columns = Tensor::empty_like(input_.labels);
      kernels().local_columns(input_.labels, input_.own(), columns);
      targets = input_.classes.rows_at(columns);
    }
    kernels().fused_gradient(input_.config.margin, input_.loss_scale, input_.labels, input_.own(), reference_, log_sums,
                             target_logit_, target_slope_, targets.rows, targets.inverse_norm, weighted_);
  }

  const LogitsInput& input_;
  Device& device_;
  bool follows_;
  Tensor reference_;     // [B]
  Tensor target_logit_;  // [B], 0 where the row's class is not here
  Tensor target_slope_;  // [B]
  Tensor sums_;          // [B], f64
  Tensor weighted_;      // [B, d]: sum of exp(z - reference) * w^
  Stash stash_;
};

}  // namespace

std::optional<double> constant_reference(const HeadConfig& config, DType dtype) {
  if (!config.normalize) return {};
  // ln of the largest finite and of the smallest normal number, and a little less.
  const double range = dtype == DType::f64 ? 700 : 87;
  const double summed = std::log(static_cast<double>(config.classes));
  const double raised = config.samples() && config.sample.correction ? summed : 0;
  const double reference =
      std::max(0.0, largest_logit(config.margin) + raised + summed - std::log(norm_epsilon) - range);
  if (-smallest_logit(config.margin) + reference > range) return {};
  return reference;
}

LogitsResult fused_logits(const LogitsInput& input) {
  FusedRows sums(input);
  input.classes.for_each([&](const ClassTile& tile) { sums.add(tile); });
  return sums.finish();
}

}  // namespace heddle
