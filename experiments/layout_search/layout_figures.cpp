#include "experiments/layout_search/layout_figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "experiments/training/planning/model_layout.h"
#include "experiments/training/planning/planned_head.h"
#include "experiments/training/prediction/prediction.h"
#include "experiments/training/prediction/stepped_elements.h"
#include "experiments/training/run.h"
#include "framework/error.h"
#include "layers/planner/placement_report.h"

namespace heddle {

namespace {

/// The experiment without what is about its ranks and their memory.
Experiment on_one_rank(Experiment experiment) {
  experiment.mesh = {};
  experiment.ranks = {};
  experiment.memory_budget = 0;
  for (std::size_t set = 0; set < experiment.heads(); ++set) experiment.head_of(set).split.clear();
  return experiment;
}

/// A schedule of more micro-batches than so many for each rank repeats itself: time and memory grow evenly.
constexpr std::int64_t max_rounds = 8;

/// The bytes of a micro-batch's activations that a rank keeps of a stage.
double activation_bytes(const RunPlan& plan, int stage, const StageLoads& loads) {
  const IndexRange range = plan.range(stage);
  const auto first = loads.held.begin() + range.begin;
  const double all = std::accumulate(first, first + range.size, 0.0);
  // Only the inputs of segments are kept.
  return plan.has_sqrt_segments ? all / std::sqrt(static_cast<double>(range.size)) : all;
}

}  // namespace

RankBudgets::RankBudgets(const Experiment& experiment, const Mesh& mesh)
    : experiment_(experiment), has_any_(experiment.min_budget(mesh.size()) > 0) {
  for (int pp = 0; pp < mesh.size(Axis::pp); ++pp) tightest_.push_back(mesh.rank({.pp = pp}));
  if (experiment.ranks.memory_budget.empty()) return;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    int& tightest = tightest_[static_cast<std::size_t>(mesh.coordinates(rank).pp)];
    if (fullness(rank, 1) > fullness(tightest, 1)) tightest = rank;
  }
}

double RankBudgets::fullness(int rank, double bytes) const {
  if (!has_any_) return bytes;
  const std::int64_t budget = experiment_.budget_of(rank);
  return budget == 0 ? 0 : bytes / static_cast<double>(budget);
}

LayoutFigures LayoutPlanner::plan(const Experiment& experiment) {
  const VariantResult result =
      run_variant(experiment, experiment.name, {.dataset = dataset_, .asks_bytes_only = true, .profiles = &profiles_});
  if (result.status != VariantResult::Status::ok) fail<RankFailed>("{}", result.error);
  const RankBudgets budgets(experiment, mesh_of(experiment));
  const auto fullness = [&](const RankResult& rank) {
    return budgets.fullness(rank.rank, static_cast<double>(rank.peak.total()));
  };
  const RankResult& fullest = *std::ranges::max_element(result.ranks, {}, fullness);
  return {.seconds = step_seconds(result).value_or(StepSeconds{}).median,
          .bytes = fullest.peak.total(),
          .fullness = fullness(fullest),
          .rank = fullest.rank,
          .peak = fullest.peak};
}

LayoutFigures LayoutPlanner::plan_serially(Experiment experiment) {
  experiment = on_one_rank(std::move(experiment));
  experiment.pipeline = {};
  experiment.model.placements.clear();
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
  // The head's ranks decide how much of a budget it leaves.
  const std::string key =
      fmt::format("{} {} {} {} {}", value_of(layout, LayoutOption::mesh), layout.micro_batches, name_of(layout.shard),
                  value_of(layout, LayoutOption::placements),
                  experiment.min_budget(mesh_of(experiment).size()) > 0 ? value_of(layout, LayoutOption::over) : "");
  const auto known = placed_.find(key);
  if (known != placed_.end()) return known->second;
  const auto model = std::make_shared<ModelSpec>(model_of(experiment, image_shape(experiment.data)));
  const Mesh mesh = mesh_of(experiment);
  const auto placement = std::make_shared<ModelPlacement>(placement_of(*model, experiment, mesh, quick_planning));
  const PlannerOptions options = planner_options(experiment, *model, mesh);
  const PlacementReport costs = placement_report(*model, *placement, options);
  const auto micro_batches = static_cast<double>(options.micro_batches);
  std::vector<PlacedLayer> layers;
  for (std::size_t i = 0; i < costs.layers.size(); ++i) {
    const ModelSpec::Application& application = model->applications()[i];
    const bool trains_parameters = ModelSpec::trains_parameters(application);
    const bool gives_gradient = model->gives_gradient(application);
    const double pass = costs.layers[i].seconds / (1 + trains_parameters + gives_gradient) / micro_batches;
    // If micro-batches are small, each pass takes as long as it reads the weights.
    const double weight_bytes = static_cast<double>(costs.layers[i].parameters) * sizeof(float);
    const double reading = weight_bytes / experiment.profile.bytes_per_second;
    layers.push_back({.forward = std::max(pass, reading),
                      .backward_input = gives_gradient ? std::max(pass, reading) : 0,
                      .backward_weight = trains_parameters ? std::max(pass, reading) : 0,
                      .gradient_sum = trains_parameters ? 3 * reading : 0,
                      .weight_bytes = weight_bytes});
  }
  PlacedModel& made = placed_[key];
  made = {.model = model,
          .placement = placement,
          .forms = std::make_shared<ValueForms>(*model, *placement),
          .layers = std::move(layers),
          .messages = layer_messages(*model, *placement, options, costs)};
  for (const BalanceBy by : all_of<BalanceBy>)
    made.loads.at(static_cast<std::size_t>(by)) = loads_of(*model, *placement, options, by);
  return made;
}

StageProfile LayoutEstimator::profile_of(const Experiment& experiment, const RunPlan& plan, const PlacedModel& placed,
                                         const StageLoads& loads) {
  const PlannerOptions options = planner_options(experiment, *plan.model, plan.placement->mesh);
  const bool offloads = has_offload(plan.training->schedule);
  StageProfile profile;
  for (int stage = 0; stage < plan.stages(); ++stage) {
    StageCosts costs{.forward = 0, .backward_input = 0, .backward_weight = 0, .recompute = 0};
    double gradient_sums = 0;
    for (std::int64_t i = plan.range(stage).begin; i < plan.range(stage).end(); ++i) {
      const PlacedLayer& layer = placed.layers[static_cast<std::size_t>(i)];
      costs.forward += layer.forward;
      const bool goes_back = layer.backward_input + layer.backward_weight > 0;
      costs.backward_input += layer.backward_input + (plan.has_sqrt_segments && goes_back ? layer.forward : 0);
      costs.backward_weight += layer.backward_weight;
      gradient_sums += layer.gradient_sum;
    }
    if (!plan.model->has_gradient(static_cast<int>(plan.range(stage).begin)))
      costs.backward_weight += std::exchange(costs.backward_input, 0);  // as W is all of its backward
    costs.recompute = costs.forward;
    costs.activations = costs.weight_inputs = activation_bytes(plan, stage, loads);
    costs.input = loads.held[static_cast<std::size_t>(plan.range(stage).begin)];
    profile.first.push_back(costs);
    costs.backward_weight += gradient_sums;
    profile.later.push_back(costs);
    profile.offloaded_bytes.push_back(offloads ? std::llround(costs.activations) : 0);
  }
  const std::vector<HeadPart> heads = head_parts(experiment, options, plan.last_rank());
  profile.set_heads(profile_heads(experiment, embedding_size(*plan.model), heads, heads_), experiment,
                    plan.placement->mesh);
  profile.optimizer = trained_elements(experiment, plan) * options.update_bytes() / experiment.profile.bytes_per_second;
  return profile;
}

LayoutFigures LayoutEstimator::memory_of(const Experiment& experiment, const RunPlan& plan, const PlacedModel& placed,
                                         const StageLoads& loads, std::span<const double> kept) const {
  std::vector<double> held(kept.begin(), kept.end());
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
    if (plan.has_sqrt_segments) of_rank += activation_bytes(plan, stage, loads);  // once all values of one segment
  }
  if (experiment.head.is_everywhere()) {
    const std::int64_t head = planned_head_bytes(experiment, embedding_size(*plan.model), plan.placement->mesh);
    for (double& of_rank : held) of_rank += static_cast<double>(head);
  }
  const RankBudgets budgets(experiment, plan.placement->mesh);
  LayoutFigures fullest;
  for (int pp = 0; pp < static_cast<int>(held.size()); ++pp) {
    const int rank = budgets.tightest(pp);
    const double bytes = held[static_cast<std::size_t>(pp)];
    if (const double fullness = budgets.fullness(rank, bytes); pp == 0 || fullness > fullest.fullness)
      fullest = {.bytes = static_cast<std::int64_t>(bytes), .fullness = fullness, .rank = rank};
  }
  return fullest;
}

LayoutFigures LayoutEstimator::estimate(const Layout& layout) {
  const Experiment experiment = space_.experiment(layout);
  const PlacedModel& placed = this->placed(layout, experiment);
  const std::int64_t ranks = layout.mesh.pp;
  if (layout.schedule == "csv" || layout.micro_batches <= max_rounds * ranks)
    return figures_of(experiment, placed, schedule_of(experiment));
  const auto figures_after = [&](std::int64_t rounds) {
    Experiment shortened = experiment;
    shortened.train.micro_batches = rounds * ranks;
    return figures_of(experiment, placed, schedule_of(shortened));
  };
  const LayoutFigures fewer = figures_after(max_rounds / 2);
  LayoutFigures figures = figures_after(max_rounds);
  const double others =
      static_cast<double>(layout.micro_batches - max_rounds * ranks) / static_cast<double>(max_rounds / 2 * ranks);
  figures.seconds += others * (figures.seconds - fewer.seconds);
  figures.bytes += std::llround(others * static_cast<double>(figures.bytes - fewer.bytes));
  figures.fullness += others * (figures.fullness - fewer.fullness);
  return figures;
}

LayoutFigures LayoutEstimator::figures_of(const Experiment& experiment, const PlacedModel& placed, Schedule schedule) {
  RunPlan plan(placed.model, placed.placement, placed.forms);
  const auto loads_by = [&](BalanceBy by) { return placed.loads.at(static_cast<std::size_t>(by)); };
  plan.cut = cut_of(*plan.model, experiment, plan.placement->mesh, schedule, loads_by);
  plan.has_sqrt_segments = experiment.pipeline.recompute == Recompute::sqrt;
  const StageLoads loads = stage_loads(loads_by(BalanceBy::memory), *plan.model, experiment, plan.placement->mesh,
                                       schedule, BalanceBy::memory);
  // Nothing executes it, so that it needs no waits.
  plan.training = std::make_shared<PipelineProgram>(PipelineProgram{.schedule = std::move(schedule), .waits = {}});
  const StageProfile profile = profile_of(experiment, plan, placed, loads);
  const PredictedStep step = predicted_step(experiment, plan, profile, placed.messages);
  LayoutFigures figures = memory_of(experiment, plan, placed, loads, step.peak_memory);
  figures.seconds = step.seconds;
  return figures;
}

double min_step_seconds(const Experiment& experiment, int ranks) {
  Experiment serial = on_one_rank(experiment);
  serial.train.micro_batches = 1;  // all samples of the batch, and no more
  const ModelSpec model = model_of(serial, image_shape(serial.data));
  const PlannerOptions options = planner_options(serial, model, mesh_of(serial));
  double flops = 0;
  for (const LayerCosts& layer : placement_report(model, place(model, options), options).layers) flops += layer.flops;
  const std::vector<LayerCosts> heads = planned_heads(serial, model, options, 0);
  for (std::size_t set = 0; set < heads.size(); ++set)
    if (serial.head_of(set).loss_every == 1) flops += heads[set].flops;  // else not every step computes it
  double speed = 0;
  for (int rank = 0; rank < ranks; ++rank) speed += experiment.ranks.speed_of(rank);
  return flops / (experiment.profile.flops_per_second * speed) * (1 - experiment.ranks.jitter);
}

}  // namespace heddle
