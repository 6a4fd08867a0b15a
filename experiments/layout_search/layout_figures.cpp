#include "experiments/layout_search/layout_figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/training/layout/model_layout.h"
#include "experiments/training/layout/planned_head.h"
#include "experiments/training/prediction/prediction.h"
#include "experiments/training/run.h"
#include "framework/error.h"
#include "layers/head/head_costs.h"
#include "layers/planner/placement_report.h"

namespace heddle {

namespace {

/// The parts of a head's computing that belong to the loss, and to the norm by which gradients are clipped; the rest
/// computes the gradient of the weights.
struct HeadShares {
  double loss = 1;
  double norm = 0;
};
HeadShares shares_of(const HeadConfig& head, bool clips_norm) {
  const int products = head_products(head, clips_norm);
  HeadShares shares{.loss = 2.0 / products};
  if (clips_norm) shares.norm = (1 - shares.loss) / 2;
  return shares;
}

/// The bytes of a micro-batch's activations that a rank keeps of a stage.
double activation_bytes(const RunPlan& plan, int stage, const StageLoads& loads) {
  const IndexRange range = plan.range(stage);
  const auto first = loads.held.begin() + range.begin;
  const double all = std::accumulate(first, first + range.size, 0.0);
  // Of segments, the inputs are kept.
  return plan.has_sqrt_segments ? all / std::sqrt(static_cast<double>(range.size)) : all;
}

}  // namespace

LayoutFigures LayoutPlanner::plan(const Experiment& experiment) {
  const VariantResult result =
      run_variant(experiment, experiment.name, {.dataset = dataset_, .asks_bytes_only = true, .profiles = &profiles_});
  if (result.status != VariantResult::Status::ok) fail<RankFailed>("{}", result.error);
  const RankResult& fullest =
      *std::max_element(result.ranks.begin(), result.ranks.end(),
                        [](const RankResult& a, const RankResult& b) { return a.peak.total() < b.peak.total(); });
  return {.seconds = step_seconds(result).value_or(StepSeconds{}).median,
          .bytes = fullest.peak.total(),
          .rank = fullest.rank,
          .peak = fullest.peak};
}

LayoutFigures LayoutPlanner::plan_serially(Experiment experiment) {
  experiment.mesh = {};
  experiment.pipeline = {};
  experiment.ranks = {};
  experiment.memory_budget = 0;
  experiment.model.placements.clear();
  for (std::size_t set = 0; set < experiment.heads(); ++set) experiment.head_of(set).split.clear();
  // Two samples of each set are enough for batch norms of vectors.
  experiment.train.batch = 2 * experiment.shares().period();
  experiment.train.micro_batches = 1;
  experiment.evaluate = false;
  return plan(experiment);
}

LayoutEstimator::LayoutEstimator(const LayoutSpace& space, const LayoutFigures& serial) : space_(space) {
  const MemoryUse& peak = *serial.peak;
  const auto weights = static_cast<double>(std::max<std::int64_t>(peak[Category::parameters], 1));
  workspace_ = static_cast<double>(peak[Category::workspace]) / weights;
}

const LayoutEstimator::PlacedModel& LayoutEstimator::placed(const Layout& layout, const Experiment& experiment) {
  const std::string key = fmt::format("{} {} {} {}", value_of(layout, LayoutOption::mesh), layout.micro_batches,
                                      name_of(layout.shard), value_of(layout, LayoutOption::placements));
  const auto known = placed_.find(key);
  if (known != placed_.end()) return known->second;
  const auto model = std::make_shared<ModelSpec>(model_of(experiment, image_shape(experiment.data)));
  const Mesh mesh = mesh_of(experiment);
  const auto placement = std::make_shared<ModelPlacement>(placement_of(*model, experiment, mesh));
  const PlannerOptions options = planner_options(experiment, *model, mesh);
  const PlacementReport costs = report(*model, *placement, options);
  const auto micro_batches = static_cast<double>(options.micro_batches);
  std::vector<PlacedLayer> layers;
  for (std::size_t i = 0; i < costs.layers.size(); ++i) {
    const bool has_weights = !model->applications()[i].layer->parameters().empty();
    const double pass = costs.layers[i].seconds / (has_weights ? 3 : 2) / micro_batches;
    PlacedLayer& layer = layers.emplace_back();
    layer = {.forward = pass, .backward_input = pass, .backward_weight = has_weights ? pass : 0};
    layer.weight_bytes = static_cast<double>(costs.layers[i].parameters) * sizeof(float);
    for (const CollectiveCost& collective : costs.layers[i].collectives) {
      const bool is_at_end = collective.payload == Payload::gradients && collective.operation == Operation::all_reduce;
      const bool is_of_shards = layout.shard == ShardedState::optimizer &&
                                (collective.payload == Payload::gradients || collective.payload == Payload::weights);
      if (is_at_end || is_of_shards) {
        layer.step_end += collective.seconds;
      } else {
        layer.forward += collective.seconds / micro_batches / 2;
        layer.backward_input += collective.seconds / micro_batches / 2;
      }
    }
  }
  for (const RedistributionCost& redistribution : costs.redistributions) {
    PlacedLayer& reader = layers[std::min(redistribution.reader, layers.size() - 1)];
    for (const ConversionCost& step : redistribution.steps) {
      if (step.forward) reader.forward += step.forward->seconds / micro_batches;
      if (step.backward) reader.backward_input += step.backward->seconds / micro_batches;
    }
  }
  return placed_[key] = {model, placement, std::move(layers)};
}

StageProfile LayoutEstimator::profile_of(const Experiment& experiment, const RunPlan& plan, const PlacedModel& placed,
                                         const StageLoads& loads) const {
  const PlannerOptions options = planner_options(experiment, *plan.model, plan.placement->mesh);
  const auto micro_batches = static_cast<double>(options.micro_batches);
  const auto tp = static_cast<double>(experiment.mesh.tp);
  const bool offloads = has_transfers(plan.training->schedule);
  StageProfile profile;
  for (int stage = 0; stage < plan.stages(); ++stage) {
    StageCosts costs{.forward = 0, .backward_input = 0, .backward_weight = 0, .recompute = 0};
    for (std::int64_t i = plan.range(stage).begin; i < plan.range(stage).end(); ++i) {
      const PlacedLayer& layer = placed.layers[static_cast<std::size_t>(i)];
      costs.forward += layer.forward;
      costs.backward_input += layer.backward_input + (plan.has_sqrt_segments ? layer.forward : 0);
      costs.backward_weight += layer.backward_weight;
    }
    // predicted_seconds divides what it is given of a whole micro-batch by tp; these are a rank's.
    for (double StageCosts::*cost : {&StageCosts::forward, &StageCosts::backward_input, &StageCosts::backward_weight})
      costs.*cost *= tp;
    costs.recompute = costs.forward;
    profile.later.push_back(costs);
    profile.offloaded_bytes.push_back(offloads ? std::llround(tp * activation_bytes(plan, stage, loads)) : 0);
  }
  profile.first = profile.later;
  const std::vector<LayerCosts> heads = planned_heads(experiment, *plan.model, options, plan.last_rank());
  for (std::size_t set = 0; set < heads.size(); ++set) {
    // They are a rank's part; predicted_seconds expects all classes and one rank's samples.
    const HeadConfig& head = experiment.head_of(set);
    const double whole = heads[set].seconds / micro_batches * plan.placement->mesh.size(head.axes()) /
                         static_cast<double>(experiment.mesh.dp);
    const HeadShares shares = shares_of(head, experiment.train.clip.norm > 0);
    profile.loss += whole * shares.loss;
    profile.head_norm += whole * shares.norm;
    profile.head_weight += whole * (1 - shares.loss - shares.norm);
  }
  std::int64_t elements = 0;
  for (const ModelSpec::Application& application : plan.model->applications())
    elements += application.layer->parameter_elements();
  // A step reads the gradient and reads and writes the weights and each of the optimizer's states.
  const auto touched = static_cast<double>(3 + 2 * options.optimizer_states) * sizeof(float);
  const auto copies = options.shards_optimizer ? static_cast<double>(experiment.mesh.dp) : 1;
  profile.optimizer = static_cast<double>(elements) * touched / copies / experiment.profile.bandwidth;
  return profile;
}

std::int64_t LayoutEstimator::bytes_of(const Experiment& experiment, const RunPlan& plan, const PlacedModel& placed,
                                       const StageLoads& loads) const {
  const Schedule& schedule = plan.training->schedule;
  SimulationCosts costs;
  costs.stages.clear();
  std::vector<double> held(static_cast<std::size_t>(schedule.size()), 0);
  for (int stage = 0; stage < plan.stages(); ++stage) {
    double& of_rank = held[static_cast<std::size_t>(plan.rank_of()[static_cast<std::size_t>(stage)])];
    const IndexRange range = plan.range(stage);
    double weights = 0;
    for (auto i = static_cast<std::size_t>(range.begin); i < static_cast<std::size_t>(range.end()); ++i) {
      of_rank += loads.each[i];
      weights += placed.layers[i].weight_bytes;
    }
    of_rank += workspace_ * weights;
    if (experiment.mesh.dp > 1)  // the buckets in which gradients are summed
      of_rank += std::min(weights, static_cast<double>(experiment.train.bucket_bytes));
    const double activations = activation_bytes(plan, stage, loads);
    if (plan.has_sqrt_segments) of_rank += activations;  // once all values of one segment
    costs.stages.push_back({.activations = activations,
                            .weight_inputs = activations,
                            .input = loads.held[static_cast<std::size_t>(range.begin)]});
  }
  const std::vector<double> peaks = simulate(schedule, costs).peak_memory;
  double most = 0;
  for (std::size_t rank = 0; rank < held.size(); ++rank) most = std::max(most, held[rank] + peaks[rank]);
  if (experiment.head.is_everywhere())
    most += static_cast<double>(planned_head_bytes(experiment, embedding_size(*plan.model), plan.placement->mesh));
  return static_cast<std::int64_t>(most);
}

LayoutFigures LayoutEstimator::estimate(const Layout& layout) {
  const Experiment experiment = space_.experiment(layout);
  const PlacedModel& placed = this->placed(layout, experiment);
  RunPlan plan;
  plan.model = placed.model;
  plan.placement = placed.placement;
  Schedule schedule = schedule_of(experiment);
  plan.cut = cut_of(*plan.model, experiment, *plan.placement, schedule);
  plan.has_sqrt_segments = experiment.pipeline.recompute == Recompute::sqrt;
  plan.training = make_program(std::move(schedule));
  const StageLoads loads =
      stage_loads(*plan.model, experiment, *plan.placement, plan.training->schedule, BalanceBy::memory);
  const StageProfile profile = profile_of(experiment, plan, placed, loads);
  std::vector<double> step_end(static_cast<std::size_t>(experiment.mesh.pp), 0);
  for (int stage = 0; stage < plan.stages(); ++stage)
    for (std::int64_t i = plan.range(stage).begin; i < plan.range(stage).end(); ++i)
      step_end[static_cast<std::size_t>(plan.rank_of()[static_cast<std::size_t>(stage)])] +=
          placed.layers[static_cast<std::size_t>(i)].step_end;
  return {.seconds = predicted_seconds(experiment, plan, std::span(&profile, 1)) +
                     *std::max_element(step_end.begin(), step_end.end()),
          .bytes = bytes_of(experiment, plan, placed, loads)};
}

double bound_seconds(const Experiment& experiment, int ranks) {
  Experiment serial = experiment;
  serial.mesh = {};
  serial.memory_budget = 0;
  const ModelSpec model = model_of(serial, image_shape(serial.data));
  const PlannerOptions options = planner_options(serial, model, mesh_of(serial));
  double flops = 0;
  for (const LayerCosts& layer : report(model, place(model, options), options).layers) flops += layer.flops;
  const std::vector<LayerCosts> heads = planned_heads(serial, model, options, 0);
  for (std::size_t set = 0; set < heads.size(); ++set)
    if (serial.head_of(set).loss_every == 1) flops += heads[set].flops;  // else not every step computes it
  double speed = 0;
  for (int rank = 0; rank < ranks; ++rank) speed += experiment.ranks.speed_of(rank);
  return flops / (experiment.profile.flops * speed) * (1 - experiment.ranks.jitter);
}

}  // namespace heddle
