#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/tensors/device.h"
#include "layers/head/logits.h"
#include "layers/head/tile_logits.h"

namespace heddle {

namespace {

/// The sums over the tiles.
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
    TileLogits logits = tile_logits(input_.operand, input_.labels, tile, input_.own().begin + tile.first_class(),
                                    input_.rows.dtype(), input_.config.stash ? stash_.tile(tile, rows()) : Tensor());
    turn_into_exponentials(logits);
    multiply(by_products(logits, tile, tile.inverse_norm), false, tile.rows, 1, weighted_);
    if (input_.config.stash && (follows_ || tile.begin == 0))
      stash_.references.rows(tile.index, tile.index + 1).reshape({rows()}).copy_from(reference_);
  }

  LogitsResult finish() {
    if (follows_) rise(input_.ranks.all_reduce(reference_, Reduction::max));
    const RowLosses losses = losses_of(input_, reference_, sums_, target_logit_);
    add_targets(losses.log_sums);
    LogitsResult result{.kept = kept_rows(input_, losses), .loss = losses.loss, .gradient = weighted_};
    if (input_.config.stash) {
      result.kept.target_logit = target_logit_;
      result.kept.target_slope = target_slope_;
      result.kept.stash = stash_;
    }
    return result;
  }

 private:
  /// The exponentials of the logits, and the sums and own logits of the rows so far, from products.
  void turn_into_exponentials(TileLogits& logits) {
    const StepMargin& margin = input_.margin.step;
    if (!follows_ && !has_negative_map(margin.config)) {
      Tensor products = logits.values;
      // What is kept, or spread over several centres, is not rounded yet.
      if (!input_.config.stash && !logits.best.defined()) logits.values = in_place_or(products, input_.operand.dtype());
      kernels().product_exponentials(margin, logits.columns, reference_, products, target_logit_, target_slope_,
                                     logits.values, sums_);
      return;
    }
    Tensor row_max = empty_row();
    kernels().margin_logits(margin, logits.columns, logits.values, target_logit_, target_slope_, row_max);
    rise(row_max);
    kernels().accumulate_exponentials(margin, logits.columns, reference_, logits.values, sums_);
  }

  const HeadKernels& kernels() const { return device_.backend().head(); }
  std::int64_t rows() const { return input_.rows.shape()[0]; }
  Tensor empty_row() const { return Tensor::empty(device_, {rows()}, input_.rows.dtype()); }
  Tensor row(double value) const { return Tensor::full(device_, {rows()}, input_.rows.dtype(), value); }

  /// Raises the reference to the larger of both, and rescales the sums that were computed with the old one.
  void rise(const Tensor& row_max) {
    if (!follows_) return;
    Tensor factor = empty_row();
    kernels().raise_reference(row_max, reference_, sums_, factor);
    device_.backend().elementwise().binary(BinaryOp::multiply, weighted_, factor.reshape({rows(), 1}), weighted_);
  }

  /// Turns the weighted sums of the classes into the gradient, and adds the rows' own classes, which the tiles left
  /// out.
  void add_targets(const Tensor& log_sums) {
    const ClassTile targets = best_targets();
    kernels().fused_gradient(
        input_.config.margin, input_.loss_factors, targets_of(targets),
        {.reference = reference_, .log_sums = log_sums, .target_logit = target_logit_, .target_slope = target_slope_},
        weighted_);
  }

  HeadTargets targets_of(const ClassTile& tile) const {
    return {.labels = input_.labels, .range = input_.own(), .rows = tile.rows, .scale = tile.inverse_norm};
  }

  /// The best centre of each row's class.
  ClassTile best_targets() const {
    const ClassTile targets = target_tile(input_);
    if (input_.classes.centres() == 1 || !targets.rows.defined()) return targets;
    Tensor products = empty_row();
    Tensor radii;
    Tensor best = Tensor::empty_like(input_.labels);
    kernels().target_products(targets_of(targets), input_.rows, products, radii, best);
    ClassTile of_best;
    of_best.rows = Tensor::empty_like(input_.rows);
    of_best.inverse_norm = empty_row();
    device_.backend().rows().gather(targets.rows, best, of_best.rows);
    device_.backend().rows().gather(targets.inverse_norm, best, of_best.inverse_norm);
    return of_best;
  }

  const LogitsInput& input_;
  Device& device_;
  bool follows_;
  Tensor reference_;     // [B]
  Tensor target_logit_;  // [B], 0 if the row's class is on another rank
  Tensor target_slope_;  // [B]
  Tensor sums_;          // [B], f64
  Tensor weighted_;      // [B, d]: sum of exp(z - reference) * w^
  Stash stash_;
};

}  // namespace

std::optional<double> constant_reference(const HeadConfig& config, DType dtype) {
  if (!config.normalize) return {};
  // ln of the largest finite number and of the smallest normal number, with a small margin.
  const double range = dtype == DType::f64 ? 700 : 87;
  const double summed = std::log(static_cast<double>(config.classes));
  const double raised = config.samples() && config.sample.correction ? summed : 0;
  const double reference = std::max(0.0, max_logit(config.margin) + raised + summed - std::log(norm_epsilon) - range);
  if (-min_logit(config.margin) + reference > range) return {};
  return reference;
}

LogitsResult fused_logits(const LogitsInput& input) {
  FusedRows sums(input);
  input.classes.for_each([&](const ClassTile& tile) { sums.add(tile); });
  return sums.finish();
}

}  // namespace heddle
