#include "experiments/training/layout/head_costs.h"

namespace heddle {

namespace {

std::int64_t classes_of_a_rank(const Experiment& experiment, const Mesh& mesh) {
  return shard(experiment.head.classes, mesh.size(experiment.head.class_axes()), 0).size;
}

/// What the head's ranks exchange in a step. A replicated head's gradient is summed like other parameters', also where
/// each rank steps a part of it.
std::vector<LayerExchange> head_exchanges(const Experiment& experiment, std::int64_t dimension, const HeadRows& rows,
                                          const PlannerOptions& options) {
  const HeadConfig& head = experiment.head;
  std::vector<LayerExchange> exchanges;
  for (const LayerExchange& exchange :
       Head::exchanges(head, dimension, rows, options.mesh, options.precision.wide(), experiment.train.clip.norm > 0)) {
    exchanges.push_back(exchange);
    const bool is_gradient = head.is_replicated() && exchange.elements == head.rows_of(head.classes) * dimension;
    if (exchange.when != LayerExchange::When::step_end || !is_gradient || !options.shards_optimizer) continue;
    exchanges.back().operation = Operation::reduce_scatter;
    exchanges.push_back(exchange);
    exchanges.back().operation = Operation::all_gather;
  }
  return exchanges;
}

/// The rows of the largest micro-batch.
HeadRows head_rows(const HeadConfig& head, const PlannerOptions& options, int last_rank) {
  Placements by_sample;
  for (const Axis axis : layer_axes) by_sample[axis] = Placement::shard(0);
  const auto rows_of = [&](int rank) {
    const Mesh::Coordinates at = options.mesh.coordinates(rank);
    return at.pp == last_rank ? local_box({options.samples}, by_sample, options.mesh, at)[0].size : 0;
  };
  const int first = options.mesh.rank({.pp = head.is_everywhere() ? 0 : last_rank});
  HeadRows rows{.of_first = rows_of(first)};
  for (const int rank : options.mesh.ranks_over(head.class_axes(), first)) rows.of_group += rows_of(rank);
  return rows;
}

Cargo cargo_of(const LayerExchange& exchange) {
  if (exchange.when != LayerExchange::When::step_end) return Cargo::activations;
  return exchange.operation == Operation::all_gather ? Cargo::weights : Cargo::gradients;
}

}  // namespace

std::int64_t head_bytes(const Experiment& experiment, std::int64_t dimension, const Mesh& mesh) {
  const TrainConfig& train = experiment.train;
  const std::int64_t classes = classes_of_a_rank(experiment, mesh);
  const HeadBytes bytes =
      Head::bytes(experiment.head, train.optimizer, dimension, classes, experiment.precision().wide());
  if (train.forward_only) return bytes.weights;
  std::int64_t optimizer = bytes.optimizer;
  if (experiment.head.is_replicated() && train.shard == ShardedState::optimizer) {
    const std::int64_t elements = experiment.head.rows_of(classes) * dimension;
    optimizer = optimizer / elements * shard(elements, mesh.size(experiment.head.copy_axes()), 0).size;
  }
  return bytes.weights + bytes.gradient + optimizer;
}

LayerCosts head_costs(const Experiment& experiment, const ModelDescription& model, const PlannerOptions& options,
                      int last_rank) {
  const PlanCosts prices(model, options);
  const HeadConfig& head = experiment.head;
  const std::int64_t dimension = embedding_size(model);
  const std::int64_t held = head.rows_of(classes_of_a_rank(experiment, options.mesh));
  LayerCosts costs;
  costs.parameters = held * dimension;
  costs.bytes = head_bytes(experiment, dimension, options.mesh);
  if (experiment.train.forward_only) return costs;
  const HeadRows rows = head_rows(head, options, last_rank);
  for (const LayerExchange& exchange : head_exchanges(experiment, dimension, rows, options))
    costs.collectives.push_back(prices.exchange(cargo_of(exchange), exchange));
  const double taking_part = static_cast<double>(held) * (head.samples() ? head.sample.rate : 1);
  const auto multiplied = static_cast<double>(rows.of_group);
  const double cells = multiplied * taking_part;
  const int products = Head::products(head, experiment.train.clip.norm > 0);
  const double flops = products * 2 * cells * static_cast<double>(dimension);
  const double touched = products * static_cast<double>(size_of(options.precision.wide())) *
                         (cells + (multiplied + taking_part) * static_cast<double>(dimension));
  costs.flops = flops * static_cast<double>(options.micro_batches);
  costs.seconds = prices.computing_seconds(flops, touched);
  return costs;
}

}  // namespace heddle
