#include "experiments/training/planning/model_layout.h"

#include <algorithm>
#include <set>

#include "experiments/training/planning/planned_head.h"
#include "layers/stages/stage_cut.h"
#include "parallel/pipeline/dependencies.h"

namespace heddle {

namespace {

std::int64_t optimizer_states(const OptimizerConfig& config) {
  if (config.type == OptimizerType::adamw) return 2;
  return config.momentum > 0 ? 1 : 0;
}

/// For each stage, the most micro-batches that are at one time between the forward (or the recomputation) that keeps
/// their values and the backward that lets them go, and are not offloaded.
std::vector<double> max_in_flight(const Schedule& schedule) {
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
      if (is_kept || action.kind == ActionKind::recompute || action.kind == ActionKind::load)
        most[stage] = std::max(most[stage], ++now[stage]);
      if (is_backward(action.kind) || action.kind == ActionKind::offload) --now[stage];
    }
  return most;
}

double head_load(const LayerCosts& head, BalanceBy by) {
  if (by == BalanceBy::time) return head.seconds;
  return static_cast<double>(by == BalanceBy::memory ? head.bytes : head.parameters);
}

/// For each stage, the largest value of its ranks.
template <class ValueOf>
std::vector<double> max_of_ranks(const Mesh& mesh, const Schedule& schedule, const ValueOf& value_of) {
  std::vector<double> values(static_cast<std::size_t>(schedule.stages()));
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (int rank = 0; rank < mesh.size(); ++rank)
      if (schedule.has_stage(mesh.coordinates(rank).pp, stage)) {
        double& largest = values[static_cast<std::size_t>(stage)];
        largest = std::max(largest, value_of(rank));
      }
  return values;
}

/// The slowdown of each stage, which is that of its slowest rank. Empty where all ranks have the same speed, as they
/// have on a wall clock.
std::vector<double> slowness_of(const Experiment& experiment, const Mesh& mesh, const Schedule& schedule) {
  if (experiment.ranks.speed.empty() || !experiment.is_virtual_time()) return {};
  return max_of_ranks(mesh, schedule, [&](int rank) { return 1 / experiment.ranks.speed_of(rank); });
}

/// How much more the memory of each stage weighs because the smallest budget of its ranks is smaller than the largest.
/// A rank without a budget counts as one that can hold everything, which is `all` bytes. Empty where ranks have no
/// budgets of their own. `head`: the bytes that every rank has of a head over all of them.
std::vector<double> tightness_of(const Experiment& experiment, const Mesh& mesh, const Schedule& schedule, double all,
                                 std::int64_t head) {
  if (experiment.ranks.memory_budget.empty() || experiment.min_budget(mesh.size()) == 0) return {};
  const auto left = [&](int rank) {
    const std::int64_t budget = experiment.budget_of(rank);
    return budget == 0 ? all : std::max(1.0, static_cast<double>(budget - head));
  };
  double largest = 0;
  for (int rank = 0; rank < mesh.size(); ++rank) largest = std::max(largest, left(rank));
  return max_of_ranks(mesh, schedule, [&](int rank) { return largest / left(rank); });
}

}  // namespace

ModelSpec model_of(const Experiment& experiment, const ImageShape& image) {
  ModelSpec model = make_model(experiment.model, image);
  model.freeze(experiment.train.freeze);
  return model;
}

PlannerOptions planner_options(const Experiment& experiment, const ModelSpec& model, const Mesh& mesh) {
  const TrainConfig& train = experiment.train;
  PlannerOptions options{.mesh = mesh,
                         .samples = micro_batch_samples(experiment, mesh, 0).size,
                         // Each copy of the stages has its share.
                         .micro_batches = train.micro_batches / mesh.size(Axis::copies),
                         .links = experiment.links,
                         .profile = experiment.profile,
                         .precision = experiment.precision(),
                         .optimizer_states = optimizer_states(train.optimizer),
                         .averages_weights = train.averages_weights,
                         .shards_optimizer = train.shard == ShardedState::optimizer};
  if (const std::int64_t budget = experiment.min_budget(mesh.size()); budget > 0) {
    // The planner places the layers of all stages, and each rank of a pipeline has its part of them.
    const std::int64_t parts = mesh.size(Axis::pp) / mesh.size(Axis::copies);
    const std::int64_t left = budget - planned_head_bytes(experiment, embedding_size(model), mesh);
    options.memory_budget = parts * std::clamp<std::int64_t>(left, 0, (std::int64_t{1} << 53) / parts);
  }
  return options;
}

ModelPlacement placement_of(const ModelSpec& model, const Experiment& experiment, const Mesh& mesh,
                            const PlannerEffort& effort) {
  PlannerOptions options = planner_options(experiment, model, mesh);
  options.effort = effort;
  if (options.memory_budget) {
    try {
      return place(model, options);
    } catch (const InputError&) {
      options.memory_budget.reset();
    }
  }
  return place(model, options);
}

StageLoads stage_loads(const ModelSpec& model, const Experiment& experiment, const ModelPlacement& placement,
                       const Schedule& schedule, BalanceBy by) {
  return stage_loads(loads_of(model, placement, planner_options(experiment, model, placement.mesh), by), model,
                     experiment, placement.mesh, schedule, by);
}

StageLoads stage_loads(StageLoads of_layers, const ModelSpec& model, const Experiment& experiment, const Mesh& mesh,
                       const Schedule& schedule, BalanceBy by) {
  of_layers.in_flight = max_in_flight(schedule);
  if (!experiment.head.is_everywhere())
    for (const LayerCosts& head :
         planned_heads(experiment, model, planner_options(experiment, model, mesh), schedule.rank_of.back()))
      of_layers.each.back() += head_load(head, by);
  return of_layers;
}

StageCut cut_of(const ModelSpec& model, const Experiment& experiment, const ModelPlacement& placement,
                const Schedule& schedule, std::span<const double> seconds) {
  const PlannerOptions options = planner_options(experiment, model, placement.mesh);
  const auto loads = [&](BalanceBy by) { return loads_of(model, placement, options, by); };
  return cut_of(model, experiment, placement.mesh, schedule, loads, seconds);
}

StageCut cut_of(const ModelSpec& model, const Experiment& experiment, const Mesh& mesh, const Schedule& schedule,
                const LayerLoads& loads, std::span<const double> seconds) {
  return make_cut(model, experiment.model.stages, schedule.stages(), [&](BalanceBy by) {
    if (by == BalanceBy::time && !seconds.empty())
      return StageLoads{.each = {seconds.begin(), seconds.end()}, .weights = slowness_of(experiment, mesh, schedule)};
    StageLoads all = stage_loads(loads(by), model, experiment, mesh, schedule, by);
    if (by == BalanceBy::time) all.weights = slowness_of(experiment, mesh, schedule);
    if (by == BalanceBy::memory) {
      const std::int64_t head =
          experiment.head.is_everywhere() ? planned_head_bytes(experiment, embedding_size(model), mesh) : 0;
      all.weights = tightness_of(experiment, mesh, schedule, all.sum(), head);
    }
    return all;
  });
}

}  // namespace heddle
