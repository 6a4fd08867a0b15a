// What a head holds, computes and sends, from its settings alone.
#include "layers/head/head.h"

namespace heddle {

HeadBytes Head::bytes(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension,
                      std::int64_t classes, DType dtype) {
  const std::int64_t centres = config.rows_of(classes);
  const auto rows = [&](DType type) { return centres * dimension * static_cast<std::int64_t>(size_of(type)); };
  const std::int64_t biases = config.bias ? classes * static_cast<std::int64_t>(size_of(dtype)) : 0;
  HeadBytes bytes{.weights = rows(weight_type(config, dtype)) + biases};
  if (config.weights == WeightState::int8) bytes.weights += centres * static_cast<std::int64_t>(sizeof(float));
  if (config.is_replicated()) bytes.gradient = rows(dtype);
  if (const auto type = momentum_type(config, optimizer, dtype)) bytes.optimizer += rows(*type) + biases;
  if (optimizer.type == OptimizerType::adamw) bytes.optimizer += rows(dtype) + biases;
  if (config.lags())
    bytes.optimizer += centres * static_cast<std::int64_t>(sizeof(std::int32_t)) + LazyStepTable::bytes;
  return bytes;
}

int Head::products(const HeadConfig& config, bool clips_norm) {
  const int of_phase_1 = 2;  // the logits and the embeddings' gradient
  const int of_phase_2 = config.stash ? 1 : 2;
  return of_phase_1 + (clips_norm && !config.is_replicated() ? 2 : 1) * of_phase_2;
}

std::vector<LayerExchange> Head::exchanges(const HeadConfig& config, std::int64_t dimension, const HeadRows& rows,
                                           const Mesh& mesh, DType dtype) {
  using When = LayerExchange::When;
  const AxisSet all = mesh.larger_than_one(axes(config));
  if (all.empty()) return {};
  std::vector<LayerExchange> exchanges;
  const auto add = [&](When when, Operation operation, std::int64_t elements, DType type) -> LayerExchange& {
    return exchanges.emplace_back(LayerExchange{when, operation, all, elements, type});
  };
  if (config.is_replicated()) {
    add(When::forward, Operation::all_reduce, 1, dtype);
    add(When::step_end, Operation::all_reduce, config.rows_of(config.classes) * dimension, dtype);
    if (!initial_running(config.margin).empty()) add(When::step_end, Operation::all_reduce, 3, DType::f64);
    return exchanges;
  }
  const int ranks = mesh.size(all);
  const std::int64_t classes = shard(config.classes, ranks, 0).size;
  // The ranks' parts of these are as their rows are.
  const auto gather_rows = [&](std::int64_t width, DType type) {
    add(When::forward, Operation::all_gather, rows.all * width, type).sent = (ranks - 1) * rows.of_rank_0 * width;
  };
  gather_rows(dimension, dtype);
  gather_rows(1, DType::i64);
  const RowStatistic asked = row_statistic(config.margin);
  if (asked == RowStatistic::inverse_norm) gather_rows(1, dtype);
  if (asked == RowStatistic::target_cosine) add(When::forward, Operation::all_reduce, rows.all, dtype);
  if (asked == RowStatistic::target_radius) add(When::forward, Operation::all_reduce, 2 * rows.all, dtype);
  const bool scatters = config.loss_reduction == LossReduction::reduce_scatter;
  // A number a class: inverse norms, unless the nearest centres were found by them already, and biases.
  const auto add_vectors = [&](Operation operation) {
    if (config.normalize && config.sub_centres == 1) add(When::forward, operation, config.classes, dtype);
    if (config.bias) add(When::forward, operation, config.classes, dtype);
  };
  const auto scatter_losses = [&](Operation operation) {
    if (scatters) add(When::forward, operation, rows.all, dtype).sent = rows.all - rows.of_rank_0;
  };
  const auto reduce_sums = [&] {
    add(When::forward, Operation::all_reduce, (scatters ? 1 : 2) * rows.all, DType::f64);
    scatter_losses(Operation::reduce_scatter);
  };
  switch (config.logits) {
    case Logits::gathered:
      add(When::forward, Operation::gather, rows.all * config.classes, dtype);
      add_vectors(Operation::gather);
      add(When::forward, Operation::broadcast, (scatters ? 1 : 2) * rows.all, dtype);
      scatter_losses(Operation::scatter);
      add(When::backward, Operation::scatter, rows.all * config.classes, dtype);
      break;
    case Logits::transposed: {
      const std::int64_t kept = rows.of_rank_0 * classes;
      const std::int64_t share = shard(rows.all, ranks, 0).size;
      add_vectors(Operation::all_gather);
      add(When::forward, Operation::all_to_all, rows.all * classes, dtype).sent = rows.all * classes - kept;
      add(When::backward, Operation::all_to_all, share * config.classes, dtype).sent =
          rows.of_rank_0 * config.classes - kept;
      gather_rows(1, dtype);
      if (!scatters) gather_rows(1, dtype);
      break;
    }
    case Logits::fused:
      if (!constant_reference(config, dtype)) add(When::forward, Operation::all_reduce, rows.all, dtype);
      reduce_sums();
      break;
    case Logits::sharded:
      add(When::forward, Operation::all_reduce, rows.all, dtype);
      reduce_sums();
      break;
  }
  if (scatters) add(When::forward, Operation::all_reduce, 1, dtype);
  add(When::backward, Operation::reduce_scatter, rows.all * dimension, dtype).sent =
      (rows.all - rows.of_rank_0) * dimension;
  return exchanges;
}

}  // namespace heddle
