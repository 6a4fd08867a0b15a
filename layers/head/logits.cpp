#include "layers/head/logits.h"

#include <cmath>

#include "framework/device.h"
#include "framework/ops/linear.h"
#include "framework/ops/shape.h"

namespace heddle {

namespace {

const HeadKernels& kernels_of(const Tensor& t) {
  return t.device().backend().head();
}

/// One number a row.
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

/// Log-sum-exps and losses of logits [n, C] that have all classes; the logits become their gradient.
struct WholeRows {
  WholeRows(const LogitsInput& input, const Tensor& class_scale, const Tensor& labels, Tensor& logits)
      : statistics(Tensor::empty(logits.device(), {2, logits.shape()[0]}, logits.dtype())) {
    const std::int64_t rows = logits.shape()[0];
    RowStatistics row(logits);
    Tensor sums = Tensor::empty(logits.device(), {rows}, DType::f64);
    Tensor log_sums = statistics.rows(0, 1).reshape({rows});
    Tensor loss = statistics.rows(1, 2).reshape({rows});
    const HeadKernels& kernels = kernels_of(logits);
    kernels.margin_logits(input.config.margin, class_scale, Tensor(), labels, 0, logits, row.target_logit,
                          row.target_slope, row.row_max);
    kernels.exponential_sums(logits, row.row_max, sums);
    kernels.margin_loss(row.row_max, sums, row.target_logit, log_sums, loss);
    kernels.margin_gradient(input.config.margin, class_scale, log_sums, row.target_slope, labels, 0, input.loss_scale,
                            logits);
  }

  Tensor statistics;  // [2, n]
};

Tensor products_of(const LogitsInput& input, const ClassTile& all) {
  Tensor logits = Tensor::empty(input.rows.device(), {input.rows.shape()[0], all.selection.size}, input.rows.dtype());
  gemm(input.rows, false, all.rows, true, 1, 0, logits);
  return logits;
}

/// `logits`: the gradient by the products.
LogitsResult result_of(const LogitsInput& input, const ClassTile& all, const Tensor& logits, const Tensor& log_sums,
                       const Tensor& loss) {
  LogitsResult result{.kept = {input.rows, input.labels, log_sums, input.loss_scale, {}, {}, {}},
                      .loss = input.wants_loss ? loss : Tensor(),
                      .gradient = Tensor::empty_like(input.rows)};
  gemm(logits, false, all.rows, false, 1, 0, result.gradient);
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
  for (const ShardRange& range : input.columns) parts.push_back(slice_tensor(x, 1, range.begin, range.end()));
  return parts;
}

}  // namespace

SharedSums share_sums(const LogitsInput& input, const Tensor& sums, const Tensor& target_logit) {
  Device& device = sums.device();
  const std::int64_t batch = sums.numel();
  if (!input.wants_loss) return {input.ranks.all_reduce(sums, Reduction::sum), target_logit};
  // One exchange for both: sums of exponentials are f64, and the target's logit loses nothing there.
  Tensor both = Tensor::empty(device, {2, batch}, DType::f64);
  Tensor target = both.rows(1, 2).reshape({batch});
  both.rows(0, 1).reshape({batch}).copy_from(sums);
  device.backend().elementwise().cast(target_logit, target);
  both = input.ranks.all_reduce(both, Reduction::sum);
  SharedSums shared{both.rows(0, 1).reshape({batch}), Tensor::empty_like(target_logit)};
  device.backend().elementwise().cast(both.rows(1, 2).reshape({batch}), shared.target_logit);
  return shared;
}

LogitsResult gathered_logits(const LogitsInput& input) {
  constexpr int root = 0;
  const ClassTile all = input.classes.all();
  Tensor logits = products_of(input, all);
  const std::int64_t batch = logits.shape()[0];
  std::vector<Tensor> parts = [&] {
    const MemoryScope scope(logits.device(), Category::communication);
    return std::vector<Tensor>(input.ranks.gather(logits, root));
  }();
  // Naive in where the logits go, not wasteful: the root never holds them more than twice.
  logits = Tensor();
  const std::vector<Tensor> scales =
      all.inverse_norm.defined() ? input.ranks.gather(all.inverse_norm, root) : std::vector<Tensor>{};
  std::vector<Tensor> gradients;
  Tensor statistics;
  if (input.ranks.rank() == root) {
    Tensor whole = concat_tensors(parts, 1);
    parts.clear();
    const Tensor whole_scale = scales.empty() ? Tensor() : concat_tensors(scales, 0);
    statistics = WholeRows(input, whole_scale, input.labels, whole).statistics;
    gradients = columns_of_ranks(input, whole);
  }
  statistics = input.ranks.broadcast(statistics, root);
  logits = input.ranks.scatter(gradients, root);
  return result_of(input, all, logits, statistics.rows(0, 1).reshape({batch}), statistics.rows(1, 2).reshape({batch}));
}

LogitsResult transposed_logits(const LogitsInput& input) {
  const ClassTile all = input.classes.all();
  Tensor logits = products_of(input, all);
  const Tensor whole_scale = all.inverse_norm.defined() ? Tensor(input.ranks.all_gather(all.inverse_norm)) : Tensor();
  const auto exchange = [&](const std::vector<Tensor>& parts) {
    const MemoryScope scope(input.rows.device(), Category::communication);
    return std::vector<Tensor>(input.ranks.all_to_all(parts));
  };
  std::vector<Tensor> parts = exchange(rows_of_ranks(input, logits));
  logits = Tensor();
  Tensor whole = concat_tensors(parts, 1);
  parts.clear();
  const Tensor own_labels = rows_of_ranks(input, input.labels)[static_cast<std::size_t>(input.ranks.rank())];
  const Tensor statistics = WholeRows(input, whole_scale, own_labels, whole).statistics;
  parts = exchange(columns_of_ranks(input, whole));
  whole = Tensor();
  logits = concat_tensors(parts, 0);
  parts.clear();
  // Rank by rank, as the rows are.
  const std::int64_t own = own_labels.numel();
  const Tensor log_sums = input.ranks.all_gather(statistics.rows(0, 1).reshape({own}));
  const Tensor loss =
      input.wants_loss ? Tensor(input.ranks.all_gather(statistics.rows(1, 2).reshape({own}))) : Tensor();
  return result_of(input, all, logits, log_sums, loss);
}

LogitsResult sharded_logits(const LogitsInput& input) {
  const ClassTile all = input.classes.all();
  Tensor logits = products_of(input, all);
  Device& device = logits.device();
  const std::int64_t batch = logits.shape()[0];
  const HeadKernels& kernels = kernels_of(logits);
  RowStatistics row(logits);
  kernels.margin_logits(input.config.margin, all.inverse_norm, all.bias, input.labels, input.own().begin, logits,
                        row.target_logit, row.target_slope, row.row_max);
  row.row_max = input.ranks.all_reduce(row.row_max, Reduction::max);
  Tensor local = Tensor::empty(device, {batch}, DType::f64);
  kernels.exponential_sums(logits, row.row_max, local);
  const SharedSums shared = share_sums(input, local, row.target_logit);
  Tensor log_sums = RowStatistics::row(logits);
  Tensor loss = input.wants_loss ? RowStatistics::row(logits) : Tensor();
  kernels.margin_loss(row.row_max, shared.sums, shared.target_logit, log_sums, loss);
  kernels.margin_gradient(input.config.margin, all.inverse_norm, log_sums, row.target_slope, input.labels,
                          input.own().begin, input.loss_scale, logits);
  return result_of(input, all, logits, log_sums, loss);
}

}  // namespace heddle
