#include "experiments/training/planning/planned_head.h"

#include <algorithm>

#include "layers/head/head_costs.h"

namespace heddle {

namespace {

std::int64_t max_classes(const HeadConfig& head, const Mesh& mesh) {
  return head.max_classes(mesh.size(head.class_axes()));
}

/// What the head's ranks exchange in a step. A replicated head's gradient is summed like other parameters', also where
/// each rank steps a part of it.
std::vector<LayerCollective> planned_collectives(const Experiment& experiment, const HeadConfig& head,
                                                 std::int64_t dimension, const HeadRows& rows,
                                                 const PlannerOptions& options) {
  std::vector<LayerCollective> collectives;
  for (const LayerCollective& collective :
       head_collectives(head, dimension, rows, options.mesh, options.precision.wide(),
                        experiment.train.clip.needs_norm_of_heads(), experiment.pipeline.head_work)) {
    collectives.push_back(collective);
    const bool is_of_weights = collective.elements == head.rows_of(head.classes) * dimension;
    const bool is_gradient =
        head.is_replicated() && (is_of_weights || (head.bias && collective.elements == head.classes));
    if (collective.when != LayerCollective::When::step_end || !is_gradient || !options.shards_optimizer) continue;
    collectives.back().operation = Operation::reduce_scatter;
    collectives.push_back(collective);
    collectives.back().operation = Operation::all_gather;
    if (is_of_weights) collectives.back().dtype = weight_type(head, collective.dtype);
  }
  return collectives;
}

/// The ranks along pp that give the embeddings of the micro-batches that a rank of the head sees. Where the ranks of
/// all stages have classes, they see those of both copies of the last stage.
std::vector<int> embedding_ranks(const HeadConfig& head, const Mesh& mesh, int last_rank) {
  if (!head.is_everywhere() || mesh.size(Axis::copies) == 1) return {last_rank};
  return {last_rank, mesh.size(Axis::pp) - 1 - last_rank};
}

/// The rows of the first micro-batch, which is as large as any.
HeadRows head_rows(const Experiment& experiment, std::size_t set, const PlannerOptions& options, int last_rank) {
  const HeadConfig& head = experiment.head_of(set);
  const BatchShares shares = experiment.shares();
  Placements by_sample;
  for (const Axis axis : layer_axes) by_sample[axis] = Placement::shard(0);
  const auto rows_of = [&](int rank) {
    const Mesh::Coordinates at = options.mesh.coordinates(rank);
    if (at.pp != last_rank) return std::int64_t{0};
    return shares.within(set, local_box({options.samples}, by_sample, options.mesh, at)[0]).size;
  };
  const int first = options.mesh.rank({.pp = head.is_everywhere() ? 0 : last_rank});
  HeadRows rows{.of_first = rows_of(first)};
  for (const int rank : options.mesh.ranks_over(head.class_axes(), first)) {
    const std::int64_t own = rows_of(rank);
    rows.of_group += own;
    rows.most = std::max(rows.most, own);
  }
  return rows;
}

Payload payload_of(const LayerCollective& collective) {
  if (collective.when != LayerCollective::When::step_end) return Payload::activations;
  return collective.operation == Operation::all_gather ? Payload::weights : Payload::gradients;
}

std::int64_t bytes_of(const Experiment& experiment, const HeadConfig& head, std::int64_t dimension, const Mesh& mesh) {
  const TrainConfig& train = experiment.train;
  const std::int64_t classes = max_classes(head, mesh);
  const HeadBytes bytes = head_bytes(head, train.optimizer, dimension, classes, experiment.precision().wide());
  if (train.forward_only) return bytes.weights;
  std::int64_t optimizer = bytes.optimizer;
  if (head.is_replicated() && train.shard == ShardedState::optimizer) {
    const auto of_shard = [&](std::int64_t all, std::int64_t elements) {
      return all / elements * shard(elements, mesh.size(head.copy_axes()), 0).size;
    };
    optimizer = of_shard(bytes.optimizer - bytes.bias_optimizer, head.rows_of(classes) * dimension) +
                of_shard(bytes.bias_optimizer, classes);
  }
  return bytes.weights + bytes.gradient + optimizer;
}

LayerCosts planned_head(const Experiment& experiment, std::size_t set, const ModelSpec& model,
                        const PlannerOptions& options, int last_rank) {
  const PlacementCosts placement_costs(model, options);
  const HeadConfig& head = experiment.head_of(set);
  const std::int64_t dimension = embedding_size(model);
  const std::int64_t held = head.rows_of(max_classes(head, options.mesh));
  LayerCosts costs;
  costs.parameters = held * dimension;
  costs.bytes = bytes_of(experiment, head, dimension, options.mesh);
  if (experiment.train.forward_only) return costs;
  for (const int embedding_rank : embedding_ranks(head, options.mesh, last_rank)) {
    const HeadRows rows = head_rows(experiment, set, options, embedding_rank);
    for (const LayerCollective& collective : planned_collectives(experiment, head, dimension, rows, options))
      if (embedding_rank == last_rank || collective.when != LayerCollective::When::step_end)
        costs.collectives.push_back(placement_costs.cost(payload_of(collective), collective));
    // Each product multiplies the embeddings of the group by the weights of the classes that take part in a step.
    const auto embeddings = static_cast<double>(rows.of_group);
    const double weights = static_cast<double>(held) * (head.samples() ? head.sample.rate : 1);
    const double logits = embeddings * weights;
    const int products = head_products(head, experiment.train.clip.needs_norm_of_heads());
    const double flops = products * 2 * logits * static_cast<double>(dimension);
    const double bytes = products * static_cast<double>(size_of(options.precision.wide())) *
                         (logits + (embeddings + weights) * static_cast<double>(dimension));
    costs.flops += flops * static_cast<double>(options.micro_batches);
    costs.seconds += placement_costs.computing_seconds(flops, bytes);
  }
  return costs;
}

}  // namespace

std::vector<HeadPart> head_parts(const Experiment& experiment, const PlannerOptions& options, int last_rank) {
  std::vector<HeadPart> parts;
  for (std::size_t set = 0; set < experiment.heads(); ++set)
    parts.push_back({.rows = head_rows(experiment, set, options, last_rank).of_group,
                     .classes = max_classes(experiment.head_of(set), options.mesh)});
  return parts;
}

LossMessages planned_loss_messages(const Experiment& experiment, std::int64_t dimension, const PlannerOptions& options,
                                   int last_rank) {
  LossMessages messages;
  for (std::size_t set = 0; set < experiment.heads(); ++set) {
    const HeadConfig& head = experiment.head_of(set);
    const HeadRows rows = head_rows(experiment, set, options, last_rank);
    const std::vector<int> ranks = options.mesh.ranks_over(head.class_axes(), 0);
    if (ranks.size() == 1) continue;
    const Link& link = options.links.link(ranks.front(), ranks.back());  // the slowest, as nodes follow one another
    const auto seconds = [&](std::int64_t bytes) { return link.latency + static_cast<double>(bytes) / link.bandwidth; };
    const auto width = static_cast<std::int64_t>(size_of(options.precision.wide()));
    const bool sends_norms = row_statistic(head.margin) == RowStatistic::inverse_norm;
    const std::int64_t label = size_of(DType::i64) + (sends_norms ? width : 0);
    messages.outputs += seconds(rows.most * (dimension * width + label));
    const std::int64_t sums =
        numbers_in_parts(head, options.precision.wide()) * rows.of_group * static_cast<std::int64_t>(sizeof(double));
    const std::int64_t gradient = rows.most * dimension * width;
    messages.sums += seconds(sums);
    messages.gradient +=
        seconds(experiment.pipeline.head_work == HeadWork::one_exchange ? sums + 2 * gradient : gradient);
  }
  return messages;
}

std::int64_t planned_head_bytes(const Experiment& experiment, std::int64_t dimension, const Mesh& mesh) {
  std::int64_t bytes = 0;
  for (std::size_t set = 0; set < experiment.heads(); ++set)
    bytes += bytes_of(experiment, experiment.head_of(set), dimension, mesh);
  return bytes;
}

std::vector<LayerCosts> planned_heads(const Experiment& experiment, const ModelSpec& model,
                                      const PlannerOptions& options, int last_rank) {
  std::vector<LayerCosts> heads;
  for (std::size_t set = 0; set < experiment.heads(); ++set)
    heads.push_back(planned_head(experiment, set, model, options, last_rank));
  return heads;
}

}  // namespace heddle
