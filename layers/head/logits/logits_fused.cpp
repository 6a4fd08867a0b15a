#include "layers/head/logits/logits_fused.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "framework/tensors/device.h"

namespace heddle {

FusedLogits::FusedLogits(const LogitsInput& input)
    : input_(input),
      device_(input.rows.device()),
      follows_(!constant_reference(input.config, input.rows.dtype())),
      reference_(
          row(constant_reference(input.config, input.rows.dtype()).value_or(-std::numeric_limits<double>::infinity()))),
      target_logit_(row(0)),
      target_slope_(row(0)),
      sums_(Tensor::zeros(device_, {rows()}, DType::f64)),
      weighted_(Tensor::zeros_like(input.rows)) {
  if (input.config.stash)
    stash_ = {Tensor::empty(device_, {input.classes.size() * rows()}, input.operand.dtype()),
              Tensor::empty(device_, {follows_ ? input.classes.tiles() : 1, rows()}, input.rows.dtype())};
}

void FusedLogits::sum() {
  input_.classes.for_each([this](const ClassTile& tile) { add(tile); });
  if (!follows_)
    exchange_ = RowSums(input_, sums_, target_logit_);
  else if (input_.exchange.has_messages())
    start_messages();
}

void FusedLogits::start_messages() {
  const Tensor mine = Tensor::empty(device_, {3, rows()}, DType::f64);
  Tensor reference = row_of(mine, 0);
  Tensor target = row_of(mine, 2);
  device_.backend().elementwise().cast(reference_, reference);
  row_of(mine, 1).copy_from(sums_);
  device_.backend().elementwise().cast(target_logit_, target);
  of_ranks_ = input_.exchange.gather(mine, std::vector<std::int64_t>(static_cast<std::size_t>(input_.ranks.size()), 3));
}

void FusedLogits::finish_messages() {
  const Tensor all = of_ranks_.result();
  const ReductionKernels& reduction = device_.backend().reduction();
  std::vector<Tensor> references;
  std::vector<Tensor> sums;
  std::vector<Tensor> targets;
  for (std::int64_t begin = 0; begin < all.shape()[0]; begin += 3) {
    device_.backend().elementwise().cast(row_of(all, begin), references.emplace_back(empty_row()));
    sums.push_back(row_of(all, begin + 1));
    targets.push_back(row_of(all, begin + 2));
  }
  Tensor largest = empty_row();
  Tensor both = Tensor::empty(device_, {2, rows()}, DType::f64);
  if (rows() > 0) {
    reduction.combine(Reduction::max, references, std::span(&largest, 1));
    for (std::size_t r = 0; r < sums.size(); ++r) {
      Tensor factor = empty_row();
      kernels().raise_reference(largest, references[r], sums[r], factor);
    }
    Tensor sum = row_of(both, 0);
    Tensor target = row_of(both, 1);
    reduction.combine(Reduction::sum, sums, std::span(&sum, 1));
    reduction.combine(Reduction::sum, targets, std::span(&target, 1));
  }
  rise(largest);
  exchange_ = RowSums(std::move(both));
}

void FusedLogits::add(const ClassTile& tile) {
  const DType dtype = input_.rows.dtype();
  Tensor kept = input_.config.stash ? stash_.tile(tile, rows()) : Tensor();
  TileLogits logits = tile_logits(input_.operand, input_.labels, tile, input_.own().begin + tile.first_class(), dtype,
                                  kept.defined() && kept.dtype() == dtype ? kept : Tensor());
  turn_into_exponentials(logits, kept);
  multiply(by_products(logits, tile, tile.inverse_norm), false, tile.rows, 1, weighted_);
  if (input_.config.stash && (follows_ || tile.begin == 0))
    stash_.references.rows(tile.index, tile.index + 1).reshape({rows()}).copy_from(reference_);
}

LogitsResult FusedLogits::finish() {
  if (of_ranks_.is_started()) {
    finish_messages();
  } else if (follows_) {
    rise(input_.ranks.all_reduce(reference_, Reduction::max));
    exchange_ = RowSums(input_, sums_, target_logit_);
  }
  losses_ = exchange_.losses(input_, reference_);
  if (weighted_.defined()) add_targets(losses_.log_sums);
  LogitsResult result{
      .kept = kept_rows(input_, losses_), .loss = losses_.loss, .gradient = std::exchange(weighted_, Tensor())};
  if (input_.config.stash) {
    result.kept.target_logit = target_logit_;
    result.kept.target_slope = target_slope_;
    result.kept.stash = stash_;
  }
  return result;
}

FusedLogits::Terms FusedLogits::take_terms() {
  const ElementwiseKernels& elementwise = device_.backend().elementwise();
  Terms terms{std::exchange(weighted_, Tensor()), Tensor()};
  const ClassTile best = best_targets();
  if (!best.rows.defined()) {
    terms.targets = Tensor::zeros_like(terms.weighted);
    return terms;
  }
  Tensor factor = empty_row();
  elementwise.binary(BinaryOp::multiply, target_slope_, best.inverse_norm, factor);
  terms.targets = Tensor::empty_like(terms.weighted);
  elementwise.binary(BinaryOp::multiply, best.rows, factor.reshape({rows(), 1}), terms.targets);
  return terms;
}

Tensor FusedLogits::gradient_of(const IndexRange& rows, Terms sums) const {
  if (rows.size == 0) return sums.weighted;
  const auto own = [&](const Tensor& x) { return x.rows(rows.begin, rows.end()); };
  LossFactors factors = input_.loss_factors;
  if (factors.row_weights.defined()) factors.row_weights = own(factors.row_weights);
  // Each row has its own class, whose slope and norm are in the terms.
  const Tensor labels = Tensor::zeros(device_, {rows.size}, DType::i64);
  const Tensor slope = Tensor::full(device_, {rows.size}, sums.weighted.dtype(), 1);
  kernels().fused_gradient(input_.config.margin, factors,
                           {.labels = labels, .range = {0, 1}, .rows = sums.targets, .scale = {}},
                           {.reference = own(reference_),
                            .log_sums = own(losses_.log_sums),
                            .target_logit = own(losses_.target_logit),
                            .target_slope = slope},
                           sums.weighted);
  return sums.weighted;
}

void FusedLogits::turn_into_exponentials(TileLogits& logits, Tensor& kept) {
  const StepMargin& margin = input_.margin.step;
  if (!follows_ && !has_negative_map(margin.config)) {
    Tensor products = logits.values;
    // What is spread over several centres is not rounded yet.
    if (!logits.best.defined()) logits.values = kept.defined() ? kept : in_place_or(products, input_.operand.dtype());
    kernels().product_exponentials(margin, logits.columns, reference_, products, target_logit_, target_slope_,
                                   logits.values, sums_);
    return;
  }
  Tensor row_max = empty_row();
  kernels().margin_logits(margin, logits.columns, logits.values, target_logit_, target_slope_, row_max);
  rise(row_max);
  kernels().accumulate_exponentials(margin, logits.columns, reference_, logits.values, sums_);
  if (!kept.defined() || kept.dtype() == logits.values.dtype()) return;
  device_.backend().elementwise().cast(logits.values, kept);
  logits.values = kept;
}

const HeadKernels& FusedLogits::kernels() const {
  return device_.backend().head();
}
Tensor FusedLogits::empty_row() const {
  return Tensor::empty(device_, {rows()}, input_.rows.dtype());
}
Tensor FusedLogits::row(double value) const {
  return Tensor::full(device_, {rows()}, input_.rows.dtype(), value);
}

void FusedLogits::rise(const Tensor& row_max) {
  if (!follows_) return;
  Tensor factor = empty_row();
  kernels().raise_reference(row_max, reference_, sums_, factor);
  device_.backend().elementwise().binary(BinaryOp::multiply, weighted_, factor.reshape({rows(), 1}), weighted_);
}

void FusedLogits::add_targets(const Tensor& log_sums) {
  const ClassTile targets = best_targets();
  kernels().fused_gradient(
      input_.config.margin, input_.loss_factors, targets_of(targets),
      {.reference = reference_, .log_sums = log_sums, .target_logit = target_logit_, .target_slope = target_slope_},
      weighted_);
}

HeadTargets FusedLogits::targets_of(const ClassTile& tile) const {
  return {.labels = input_.labels, .range = input_.own(), .rows = tile.rows, .scale = tile.inverse_norm};
}

ClassTile FusedLogits::best_targets() const {
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

}  // namespace heddle
