#include "experiments/training/model_layout.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "layers/stages/stage_cut.h"

namespace heddle {

namespace {

std::int64_t optimizer_states(const OptimizerConfig& config) {
  if (config.type == OptimizerType::adamw) return 2;
  return config.momentum > 0 ? 1 : 0;
}

std::int64_t classes_of_a_rank(const Experiment& experiment, const Mesh& mesh) {
  return shard(experiment.head.classes, mesh.size(experiment.head.class_axes()), 0).size;
}

/// What one rank keeps of the head.
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

/// Of each stage, the most micro-batches that at one time are between the forward (or the recomputation) that keeps
/// their values and the backward that lets them go.
std::vector<double> most_in_flight(const Schedule& schedule) {
  std::set<std::pair<int, int>> recomputed;  // stages and micro-batches
  for (const std::vector<Action>& rank : schedule.ranks)
    for (const Action& action : rank)
      if (action.kind == ActionKind::recompute) recomputed.emplace(action.stage, action.micro_batch);
  std::vector<double> most(static_cast<std::size_t>(schedule.stages()));
  std::vector<double> now(most.size());
  for (const std::vector<Action>& rank : schedule.ranks)
    for (const Action& action : rank) {
      const auto stage = static_cast<std::size_t>(action.stage);
      const bool is_kept =
          action.kind == ActionKind::forward && recomputed.count({action.stage, action.micro_batch}) == 0;
      if (is_kept || action.kind == ActionKind::recompute) most[stage] = std::max(most[stage], ++now[stage]);
      if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_input) --now[stage];
    }
  return most;
}

double head_load(const LayerCosts& head, BalanceBy by) {
  if (by == BalanceBy::time) return head.seconds;
  return static_cast<double>(by == BalanceBy::memory ? head.bytes : head.parameters);
}

}  // namespace

PlannerOptions planner_options(const Experiment& experiment, const ModelDescription& model, const Mesh& mesh) {
  const TrainConfig& train = experiment.train;
  PlannerOptions options{.mesh = mesh,
                         .samples = shard(train.batch, train.micro_batches, 0).size,
                         .micro_batches = train.micro_batches,
                         .links = experiment.links,
                         .profile = experiment.profile,
                         .precision = experiment.precision(),
                         .optimizer_states = optimizer_states(train.optimizer),
                         .shards_optimizer = train.shard == ShardedState::optimizer};
  if (experiment.memory_budget > 0)
    options.memory_budget =
        std::max<std::int64_t>(experiment.memory_budget - head_bytes(experiment, embedding_size(model), mesh), 0);
  return options;
}

namespace {

/// A replicated head's gradient is summed like other parameters', also where each rank steps a part of it.
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

/// Of the largest micro-batch.
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

std::int64_t StepBytes::total() const {
  return std::accumulate(model.begin(), model.end(), head + stages);
}

namespace {

/// Of all micro-batches, between rank 0 and its neighbours along pp.
std::int64_t crossing_bytes_of_rank_0(const Experiment& experiment, const RunPlan& plan,
                                      const PlannerOptions& options) {
  const ValueForms forms(*plan.model, *plan.placements);
  const auto is_mine = [&](int stage) { return plan.rank_of()[static_cast<std::size_t>(stage)] == 0; };
  std::int64_t bytes = 0;
  for (int stage = 0; stage + 1 < plan.stages(); ++stage) {
    if (is_mine(stage) == is_mine(stage + 1)) continue;
    const CrossingBytes crossing =
        crossing_bytes(*plan.model, *plan.placements, forms, static_cast<int>(plan.range(stage).end()), options.samples,
                       options.precision.activations);
    bytes += options.micro_batches * (is_mine(stage) ? crossing.forward : crossing.backward);
  }
  if (!experiment.head.is_everywhere() && plan.last_rank() == 0)
    bytes += (options.mesh.size(Axis::pp) - 1) * static_cast<std::int64_t>(sizeof(double));  // the loss
  return bytes;
}

}  // namespace

std::int64_t squares_of(const ModelDescription& model) {
  std::int64_t squares = 1;
  for (const auto& application : model.applications())
    squares += static_cast<std::int64_t>(application.layer->parameters().size());
  return squares;
}

StepBytes step_bytes(const Experiment& experiment, const RunPlan& plan) {
  const ModelDescription& model = *plan.model;
  const PlannerOptions options = planner_options(experiment, model, plan.placements->mesh);
  const PlanReport planned = report(model, *plan.placements, options);
  // The last stage also brings the result into the plan's output.
  const auto is_mine = [&](std::size_t application) {
    for (int stage = 0; stage < plan.stages(); ++stage)
      if (static_cast<std::int64_t>(application) < plan.range(stage).end() || stage + 1 == plan.stages())
        return plan.rank_of()[static_cast<std::size_t>(stage)] == 0;
    return false;
  };
  PlanTotals mine;
  for (std::size_t i = 0; i < planned.layers.size(); ++i)
    if (is_mine(i)) mine.add(planned.layers[i]);
  for (const PlannedRedistribution& redistribution : planned.redistributions)
    if (is_mine(redistribution.reader))
      for (const PlannedConversion& step : redistribution.steps) {
        if (step.forward) mine.add(*step.forward);
        if (step.backward) mine.add(*step.backward);
      }
  StepBytes bytes;
  for (std::size_t cargo = 0; cargo < bytes.model.size(); ++cargo) bytes.model[cargo] = mine.traffic[cargo].bytes;
  if (experiment.head.is_everywhere() || plan.last_rank() == 0)
    for (const PlannedCollective& collective : head_costs(experiment, model, options, plan.last_rank()).collectives)
      if (collective.operation != Operation::gather) bytes.head += collective.bytes;  // to rank 0
  bytes.stages = crossing_bytes_of_rank_0(experiment, plan, options);
  const auto add_sum = [&](std::int64_t numbers) {
    const LayerExchange sum{LayerExchange::When::step_end, Operation::all_reduce,
                            options.mesh.larger_than_one(every_axis), numbers, DType::f64};
    bytes.model[static_cast<std::size_t>(Cargo::gradients)] +=
        PlanCosts(model, options).exchange(Cargo::gradients, sum).bytes;
  };
  if (experiment.train.clip.norm > 0) add_sum(squares_of(model));
  if (experiment.has_loss_scale()) add_sum(1);  // whether a gradient has overflowed
  return bytes;
}

PlacementPlan plan_of(const ModelDescription& model, const Experiment& experiment, const Mesh& mesh) {
  PlannerOptions options = planner_options(experiment, model, mesh);
  if (options.memory_budget) {
    try {
      return place(model, options);
    } catch (const InputError&) {
      options.memory_budget.reset();
    }
  }
  return place(model, options);
}

StageLoads stage_loads(const ModelDescription& model, const Experiment& experiment, const PlacementPlan& plan,
                       const Schedule& schedule, BalanceBy by) {
  const PlannerOptions options = planner_options(experiment, model, plan.mesh);
  StageLoads loads = loads_of(model, plan, options, by);
  loads.in_flight = most_in_flight(schedule);
  if (!experiment.head.is_everywhere())
    loads.each.back() += head_load(head_costs(experiment, model, options, schedule.rank_of.back()), by);
  return loads;
}

/// Of each stage, the slowest of its ranks counts; none where all ranks are alike, as they are by the wall's clock.
std::vector<double> slowness_of(const Experiment& experiment, const Mesh& mesh, const Schedule& schedule) {
  if (experiment.ranks.speed.empty() || !experiment.is_virtual_time()) return {};
  std::vector<double> slowness(static_cast<std::size_t>(schedule.stages()));
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (int rank = 0; rank < mesh.size(); ++rank)
      if (mesh.coordinates(rank).pp == schedule.rank_of[static_cast<std::size_t>(stage)]) {
        double& slowest = slowness[static_cast<std::size_t>(stage)];
        slowest = std::max(slowest, 1 / experiment.ranks.speed_of(rank));
      }
  return slowness;
}

StageCut cut_of(const ModelDescription& model, const Experiment& experiment, const PlacementPlan& plan,
                const Schedule& schedule, std::span<const double> seconds) {
  return make_cut(model, experiment.model.stages, schedule.stages(), [&](BalanceBy by) {
    if (by != BalanceBy::time) return stage_loads(model, experiment, plan, schedule, by);
    StageLoads loads = seconds.empty() ? stage_loads(model, experiment, plan, schedule, by)
                                       : StageLoads{.each = {seconds.begin(), seconds.end()}};
    loads.slowness = slowness_of(experiment, plan.mesh, schedule);
    return loads;
  });
}

}  // namespace heddle
