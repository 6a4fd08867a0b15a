#include "experiments/placement.h"

#include <algorithm>

namespace heddle {

namespace {

std::int64_t optimizer_states(const OptimizerConfig& config) {
  if (config.type == OptimizerType::adamw) return 2;
  return config.momentum > 0 ? 1 : 0;
}

std::int64_t classes_of_a_rank(const Experiment& experiment, const Mesh& mesh) {
  return shard(experiment.head.classes, mesh.size(), 0).size;
}

std::int64_t embedding_of(const ModelDescription& model) {
  return model.sample(model.last_value())[0];
}

/// Of the head's part of one rank: weight, gradient, the optimizer's states.
std::int64_t head_bytes(const Experiment& experiment, std::int64_t dimension, const Mesh& mesh) {
  return classes_of_a_rank(experiment, mesh) * dimension * (2 + optimizer_states(experiment.train.optimizer)) *
         static_cast<std::int64_t>(size_of(experiment.dtype()));
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
        std::max<std::int64_t>(experiment.memory_budget - head_bytes(experiment, embedding_of(model), mesh), 0);
  return options;
}

LayerCosts head_costs(const Experiment& experiment, const ModelDescription& model, const PlannerOptions& options) {
  const PlanCosts prices(model, options);
  const std::int64_t dimension = embedding_of(model);
  LayerCosts costs;
  for (const LayerExchange& exchange :
       Head::exchanges(experiment.head, dimension, options.samples, options.mesh, options.dtype))
    costs.collectives.push_back(prices.exchange(Cargo::activations, exchange));
  const std::int64_t classes = classes_of_a_rank(experiment, options.mesh);
  costs.parameters = classes * dimension;
  costs.bytes = head_bytes(experiment, dimension, options.mesh);
  // Logits, the embeddings' gradient, and at the step's end logits once more and the weights' gradient.
  constexpr double products = 4;
  const auto cells = static_cast<double>(options.samples) * static_cast<double>(classes);
  const double flops = products * 2 * cells * static_cast<double>(dimension);
  const double touched = products * static_cast<double>(size_of(options.dtype)) *
                         (cells + static_cast<double>((options.samples + classes) * dimension));
  costs.flops = flops * static_cast<double>(options.micro_batches);
  costs.seconds = prices.computing_seconds(flops, touched);
  return costs;
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

}  // namespace heddle
