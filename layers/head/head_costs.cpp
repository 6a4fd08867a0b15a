// What a head holds, computes and sends, from its settings alone.
#include "layers/head/head.h"

namespace heddle {

HeadBytes Head::bytes(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension,
                      std::int64_t classes, DType dtype) {
  const auto rows = [&](DType type) { return classes * dimension * static_cast<std::int64_t>(size_of(type)); };
  HeadBytes bytes{.weights = rows(weight_type(config, dtype))};
  if (config.weights == WeightState::int8) bytes.weights += classes * static_cast<std::int64_t>(sizeof(float));
  if (config.is_replicated()) bytes.gradient = rows(dtype);
  if (const auto type = momentum_type(config, optimizer, dtype)) bytes.optimizer += rows(*type);
  if (optimizer.type == OptimizerType::adamw) bytes.optimizer += rows(dtype);
  if (config.lags())
    bytes.optimizer += classes * static_cast<std::int64_t>(sizeof(std::int32_t)) + LazyStepTable::bytes;
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
  if (config.is_replicated())
    return {{When::forward, Operation::all_reduce, all, 1, dtype},
            {When::step_end, Operation::all_reduce, all, config.classes * dimension, dtype}};
  const int ranks = mesh.size(all);
  const std::int64_t classes = shard(config.classes, ranks, 0).size;
  std::vector<LayerExchange> exchanges;
  const auto add = [&](When when, Operation operation, std::int64_t elements, DType type) -> LayerExchange& {
    return exchanges.emplace_back(LayerExchange{when, operation, all, elements, type});
  };
  // The ranks' parts of these are as their rows are.
  const auto gather_rows = [&](std::int64_t width, DType type) {
    add(When::forward, Operation::all_gather, rows.all * width, type).sent = (ranks - 1) * rows.of_rank_0 * width;
  };
  gather_rows(dimension, dtype);
  gather_rows(1, DType::i64);
  switch (config.logits) {
    case Logits::gathered:
      add(When::forward, Operation::gather, rows.all * config.classes, dtype);
      if (config.normalize) add(When::forward, Operation::gather, config.classes, dtype);
      add(When::forward, Operation::broadcast, 2 * rows.all, dtype);
      add(When::backward, Operation::scatter, rows.all * config.classes, dtype);
      break;
    case Logits::transposed: {
      const std::int64_t kept = rows.of_rank_0 * classes;
      const std::int64_t share = shard(rows.all, ranks, 0).size;
      if (config.normalize) add(When::forward, Operation::all_gather, config.classes, dtype);
      add(When::forward, Operation::all_to_all, rows.all * classes, dtype).sent = rows.all * classes - kept;
      add(When::backward, Operation::all_to_all, share * config.classes, dtype).sent =
          rows.of_rank_0 * config.classes - kept;
      gather_rows(1, dtype);
      gather_rows(1, dtype);
      break;
    }
    case Logits::fused:
      if (!constant_reference(config, dtype)) add(When::forward, Operation::all_reduce, rows.all, dtype);
      add(When::forward, Operation::all_reduce, 2 * rows.all, DType::f64);
      break;
    case Logits::sharded:
      add(When::forward, Operation::all_reduce, rows.all, dtype);
      add(When::forward, Operation::all_reduce, 2 * rows.all, DType::f64);
      break;
  }
  add(When::backward, Operation::reduce_scatter, rows.all * dimension, dtype).sent =
      (rows.all - rows.of_rank_0) * dimension;
  return exchanges;
}

}  // namespace heddle
