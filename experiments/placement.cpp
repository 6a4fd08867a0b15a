#include "experiments/placement.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "layers/stage_cut.h"

namespace heddle {

namespace {

std::int64_t optimizer_states(const OptimizerConfig& config) {
  if (config.type == OptimizerType::adamw) return 2;
  return config.momentum > 0 ? 1 : 0;
}

std::int64_t classes_of_a_rank(const Experiment& experiment, const Mesh& mesh) {
  if (experiment.head.is_replicated()) return experiment.head.classes;
  return shard(experiment.head.classes, mesh.size(Head::axes(experiment.head)), 0).size;
}

/// What one rank keeps of the head.
std::int64_t head_bytes(const Experiment& experiment, std::int64_t dimension, const Mesh& mesh) {
  return Head::state_bytes(experiment.head, experiment.train.optimizer, dimension, classes_of_a_rank(experiment, mesh),
                           experiment.dtype());
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
                         .dtype = experiment.dtype(),
                         .optimizer_states = optimizer_states(train.optimizer),
                         .shards_optimizer = train.shard == ShardedState::optimizer};
  if (experiment.memory_budget > 0)
    options.memory_budget =
        std::max<std::int64_t>(experiment.memory_budget - head_bytes(experiment, embedding_size(model), mesh), 0);
  return options;
}

LayerCosts head_costs(const Experiment& experiment, const ModelDescription& model, const PlannerOptions& options) {
  const PlanCosts prices(model, options);
  const std::int64_t dimension = embedding_size(model);
  LayerCosts costs;
  for (const LayerExchange& exchange :
       Head::exchanges(experiment.head, dimension, options.samples, options.mesh, options.dtype))
    costs.collectives.push_back(prices.exchange(Cargo::activations, exchange));
  const std::int64_t classes = classes_of_a_rank(experiment, options.mesh);
  costs.parameters = classes * dimension;
  costs.bytes = head_bytes(experiment, dimension, options.mesh);
  // Logits, the embeddings' gradient, and at the step's end logits once more and the weights' gradient.
  constexpr double products = 4;
  const HeadConfig& head = experiment.head;
  const std::int64_t rows =
      head.is_replicated() ? shard(options.samples, options.mesh.size(Head::axes(head)), 0).size : options.samples;
  const double taking_part = head.samples() ? head.sample.rate : 1;
  const auto cells = static_cast<double>(rows) * static_cast<double>(classes) * taking_part;
  const double flops = products * 2 * cells * static_cast<double>(dimension);
  const double touched = products * static_cast<double>(size_of(options.dtype)) *
                         (cells + static_cast<double>((rows + classes) * dimension));
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
                       experiment.dtype());
    bytes += options.micro_batches * (is_mine(stage) ? crossing.forward : crossing.backward);
  }
  if (!experiment.head.is_everywhere() && plan.last_rank() == 0)
    bytes += (options.mesh.size(Axis::pp) - 1) * static_cast<std::int64_t>(sizeof(double));  // the loss
  return bytes;
}

}  // namespace

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
    for (const PlannedCollective& collective : head_costs(experiment, model, options).collectives)
      if (collective.operation != Operation::gather) bytes.head += collective.bytes;  // to rank 0
  bytes.stages = crossing_bytes_of_rank_0(experiment, plan, options);
  if (experiment.train.clip.norm > 0) {
    std::int64_t parameters = 1;  // the head's
    for (const auto& application : model.applications())
      parameters += static_cast<std::int64_t>(application.layer->parameters().size());
    const LayerExchange squares{LayerExchange::When::step_end, Operation::all_reduce,
                                options.mesh.larger_than_one(every_axis), parameters, DType::f64};
    bytes.model[static_cast<std::size_t>(Cargo::gradients)] +=
        PlanCosts(model, options).exchange(Cargo::gradients, squares).bytes;
  }
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
  if (!experiment.head.is_everywhere()) loads.each.back() += head_load(head_costs(experiment, model, options), by);
  return loads;
}

/// Of each stage, the slowest of its ranks counts; none where all ranks are alike.
std::vector<double> slowness_of(const Experiment& experiment, const Mesh& mesh, const Schedule& schedule) {
  if (experiment.ranks.speed.empty()) return {};
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
