#include "layers/head/logits/logits.h"

#include <numeric>
#include <utility>

#include "framework/ops/linear_algebra.h"
#include "framework/ops/shape.h"
#include "framework/tensors/device.h"
#include "layers/head/logits/logits_fused.h"
#include "layers/head/logits/tile_logits.h"

namespace heddle {

namespace {

const HeadKernels& kernels_of(const Tensor& t) {
  return t.device().backend().head();
}

/// One number per row.
struct RowStatistics {
  explicit RowStatistics(const Tensor& logits)
      : target_logit(Tensor::zeros(logits.device(), {logits.shape()[0]}, logits.dtype())),
        target_slope(Tensor::zeros_like(target_logit)),
        row_max(row(logits)) {}
  static Tensor row(const Tensor& logits) {
    return Tensor::empty(logits.device(), {logits.shape()[0]}, logits.dtype());
  }

  Tensor target_logit;
  Tensor target_slope;
  Tensor row_max;
};

/// Computes the log-sum-exps and losses of logits [n, C] of all classes, and overwrites the logits by their gradient.
struct WholeRows {
  WholeRows(const StepMargin& margin, const HeadColumns& columns, const LossFactors& factors, Tensor& logits)
      : statistics(Tensor::empty(logits.device(), {2, logits.shape()[0]}, logits.dtype())) {
    RowStatistics row(logits);
    Tensor sums = Tensor::empty(logits.device(), {logits.shape()[0]}, DType::f64);
    Tensor log_sum = log_sums();
    Tensor losses = loss();
    const HeadKernels& kernels = kernels_of(logits);
    kernels.margin_logits(margin, columns, logits, row.target_logit, row.target_slope, row.row_max);
    kernels.exponential_sums(margin, columns, logits, row.row_max, sums);
    kernels.margin_loss(row.row_max, sums, row.target_logit, log_sum, losses);
    kernels.margin_gradient(margin, columns, log_sum, row.target_slope, factors, logits);
  }
  Tensor log_sums() const { return row_of(statistics, 0); }
  Tensor loss() const { return row_of(statistics, 1); }

  Tensor statistics;  // [2, n]
};

/// The values for this rank's classes.
TileLogits logits_of(const LogitsInput& input, const ClassTile& all) {
  return tile_logits(input.operand, input.labels, all, input.own().begin, input.rows.dtype());
}

/// The values of the logits are their gradient now.
LogitsResult result_of(const LogitsInput& input, const ClassTile& all, const TileLogits& logits,
                       const RowLosses& losses) {
  LogitsResult result{
      .kept = kept_rows(input, losses), .loss = losses.loss, .gradient = Tensor::empty_like(input.rows)};
  multiply(by_products(logits, all, all.inverse_norm), false, all.rows, 0, result.gradient);
  return result;
}

std::vector<Tensor> rows_of_ranks(const LogitsInput& input, const Tensor& x) {
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t rows : input.share) {
    parts.push_back(x.rows(begin, begin + rows));
    begin += rows;
  }
  return parts;
}

std::vector<Tensor> columns_of_ranks(const LogitsInput& input, const Tensor& x) {
  std::vector<Tensor> parts;
  for (const IndexRange& range : input.columns) parts.push_back(slice_tensor(x, 1, range.begin, range.end()));
  return parts;
}

bool scatters_loss(const LogitsInput& input) {
  return input.config.loss_reduction == LossReduction::reduce_scatter;
}

}  // namespace

IndexRange LogitsInput::own_rows() const {
  const auto before = share.begin() + ranks.rank();
  return {std::accumulate(share.begin(), before, std::int64_t{0}), *before};
}

KeptRows kept_rows(const LogitsInput& input, const RowLosses& losses) {
  return {.operand = input.operand,
          .labels = input.labels,
          .log_sums = losses.log_sums,
          .loss_factors = input.loss_factors,
          .margin = input.margin.step};
}

ClassTile target_tile(const LogitsInput& input) {
  if (input.own().size == 0) return {};
  Tensor rows = Tensor::empty(input.labels.device(), {input.labels.numel() * input.classes.centres()}, DType::i64);
  kernels_of(rows).local_columns(input.labels, input.own(), rows);
  return input.classes.rows_at(rows);
}

bool RowSums::is_apart(const LogitsInput& input) {
  return !input.exchange.has_messages() && (!input.wants_loss || scatters_loss(input));
}

RowSums::RowSums(const LogitsInput& input, Tensor sums, Tensor target_logit) {
  if (is_apart(input)) {
    exchange_ = input.exchange.sum(std::move(sums));
    target_logit_ = std::move(target_logit);
    return;
  }
  // One exchange for both: sums of exponentials are f64, which holds the target's logit exactly.
  const std::int64_t batch = sums.numel();
  const Tensor both = Tensor::empty(sums.device(), {2, batch}, DType::f64);
  Tensor target = row_of(both, 1);
  row_of(both, 0).copy_from(sums);
  sums.device().backend().elementwise().cast(target_logit, target);
  exchange_ = input.exchange.sum(both);
}

RowLosses RowSums::losses(const LogitsInput& input, const Tensor& reference) {
  const HeadKernels& kernels = kernels_of(reference);
  RowLosses losses{Tensor::empty_like(reference), Tensor()};
  if (is_apart(input)) {
    const Tensor all = exchange_.result();
    kernels.margin_loss(reference, all, Tensor(), losses.log_sums, losses.loss);
    if (!input.wants_loss) return losses;
    const IndexRange own = input.own_rows();
    const Tensor target = input.ranks.reduce_scatter(std::exchange(target_logit_, Tensor()), input.share);
    Tensor log_sums = losses.log_sums.rows(own.begin, own.end());
    losses.loss = Tensor::empty_like(target);
    kernels.margin_loss(reference.rows(own.begin, own.end()), all.rows(own.begin, own.end()), target, log_sums,
                        losses.loss);
    return losses;
  }
  const Tensor both = exchange_.result();
  losses.target_logit = Tensor::empty_like(reference);
  both.device().backend().elementwise().cast(row_of(both, 1), losses.target_logit);
  losses.loss = Tensor::empty_like(reference);
  kernels.margin_loss(reference, row_of(both, 0), losses.target_logit, losses.log_sums, losses.loss);
  if (!input.wants_loss) losses.loss = Tensor();
  return losses;
}

LogitsResult compute_logits(const LogitsInput& input) {
  switch (input.config.logits) {
    case Logits::gathered:
      return gathered_logits(input);
    case Logits::transposed:
      return transposed_logits(input);
    case Logits::sharded:
      return sharded_logits(input);
    case Logits::fused:
      break;
  }
  FusedLogits fused(input);
  fused.sum();
  return fused.finish();
}

LogitsResult gathered_logits(const LogitsInput& input) {
  constexpr int root = 0;
  const ClassTile all = input.classes.all();
  TileLogits logits = logits_of(input, all);
  std::vector<Tensor> parts = [&] {
    const MemoryScope scope(logits.values.device(), Category::communication);
    return std::vector<Tensor>(input.ranks.gather(logits.values, root));
  }();
  // This method is naive about the place of the logits, but does not waste memory: the root never holds them more than
  // twice.
  logits.values = Tensor();
  const auto gathered = [&](const Tensor& x) {
    if (!x.defined()) return Tensor();
    const std::vector<Tensor> of_ranks = input.ranks.gather(x, root);
    return of_ranks.empty() ? Tensor() : concat_tensors(of_ranks, 0);
  };
  const HeadColumns columns{
      .labels = input.labels, .scale = gathered(logits.columns.scale), .bias = gathered(logits.columns.bias)};
  std::vector<Tensor> gradients;
  Tensor log_sums;
  std::vector<Tensor> losses;
  if (input.ranks.rank() == root) {
    Tensor whole = concat_tensors(parts, 1);
    parts.clear();
    const WholeRows rows(input.margin.step, columns, input.loss_factors, whole);
    log_sums = scatters_loss(input) ? rows.log_sums() : rows.statistics;
    if (scatters_loss(input)) losses = rows_of_ranks(input, rows.loss());
    gradients = columns_of_ranks(input, whole);
  }
  log_sums = input.ranks.broadcast(log_sums, root);
  RowLosses result;
  if (scatters_loss(input)) {
    result.log_sums = log_sums;
    if (input.wants_loss) result.loss = input.ranks.scatter(losses, root);
  } else {
    result.log_sums = row_of(log_sums, 0);
    if (input.wants_loss) result.loss = row_of(log_sums, 1);
  }
  logits.values = input.ranks.scatter(gradients, root);
  return result_of(input, all, logits, result);
}

LogitsResult transposed_logits(const LogitsInput& input) {
  const ClassTile all = input.classes.all();
  TileLogits logits = logits_of(input, all);
  const auto gathered = [&](const Tensor& x) { return x.defined() ? Tensor(input.ranks.all_gather(x)) : Tensor(); };
  const auto exchange = [&](const std::vector<Tensor>& parts) {
    const MemoryScope scope(input.rows.device(), Category::communication);
    return std::vector<Tensor>(input.ranks.all_to_all(parts));
  };
  const IndexRange own = input.own_rows();
  const HeadColumns columns{.labels = input.labels.rows(own.begin, own.end()),
                            .scale = gathered(logits.columns.scale),
                            .bias = gathered(logits.columns.bias)};
  std::vector<Tensor> parts = exchange(rows_of_ranks(input, logits.values));
  logits.values = Tensor();
  Tensor whole = concat_tensors(parts, 1);
  parts.clear();
  StepMargin margin = input.margin.step;
  if (margin.parameter.defined()) margin.parameter = margin.parameter.rows(own.begin, own.end());
  LossFactors factors = input.loss_factors;
  if (factors.row_weights.defined()) factors.row_weights = factors.row_weights.rows(own.begin, own.end());
  const WholeRows rows(margin, columns, factors, whole);
  parts = exchange(columns_of_ranks(input, whole));
  whole = Tensor();
  logits.values = concat_tensors(parts, 0);
  parts.clear();
  // Rank by rank, like the rows.
  RowLosses losses{input.ranks.all_gather(rows.log_sums()), Tensor()};
  if (input.wants_loss) losses.loss = scatters_loss(input) ? rows.loss() : Tensor(input.ranks.all_gather(rows.loss()));
  return result_of(input, all, logits, losses);
}

LogitsResult sharded_logits(const LogitsInput& input) {
  const ClassTile all = input.classes.all();
  TileLogits logits = logits_of(input, all);
  Tensor& z = logits.values;
  const StepMargin& margin = input.margin.step;
  const HeadKernels& kernels = kernels_of(z);
  RowStatistics row(z);
  kernels.margin_logits(margin, logits.columns, z, row.target_logit, row.target_slope, row.row_max);
  row.row_max = input.ranks.all_reduce(row.row_max, Reduction::max);
  Tensor local = Tensor::empty(z.device(), {z.shape()[0]}, DType::f64);
  kernels.exponential_sums(margin, logits.columns, z, row.row_max, local);
  const RowLosses losses = RowSums(input, local, row.target_logit).losses(input, row.row_max);
  kernels.margin_gradient(margin, logits.columns, losses.log_sums, row.target_slope, input.loss_factors, z);
  return result_of(input, all, logits, losses);
}

}  // namespace heddle
