#include "experiments/training/planning/step_bytes.h"

#include <algorithm>
#include <numeric>

#include "experiments/training/planning/model_layout.h"
#include "experiments/training/planning/planned_head.h"
#include "layers/head/class_sample.h"
#include "layers/stages/stage_cut.h"

namespace heddle {

namespace {

/// The bytes of all micro-batches between rank 0 and its neighbours along pp.
std::int64_t crossing_bytes_of_rank_0(const Experiment& experiment, const RunPlan& plan,
                                      const PlannerOptions& options) {
  std::int64_t bytes = 0;
  for (int copy = 0; copy < plan.copies(); ++copy) {
    const std::vector<int>& rank_of = plan.training->schedule.ranks_of_copy(copy);
    const auto is_mine = [&](int stage) { return rank_of[static_cast<std::size_t>(stage)] == 0; };
    for (int stage = 0; stage + 1 < plan.stages(); ++stage) {
      if (is_mine(stage) == is_mine(stage + 1)) continue;
      const CrossingBytes crossing =
          crossing_bytes(*plan.model, *plan.placement, *plan.forms, static_cast<int>(plan.range(stage).end()),
                         options.samples, options.precision.activations, !experiment.train.forward_only);
      bytes += options.micro_batches * (is_mine(stage) ? crossing.forward : crossing.backward);
    }
  }
  if (!experiment.head.is_everywhere() && plan.copies() == 1 && plan.last_rank() == 0)
    bytes +=
        (options.mesh.size(Axis::pp) - 1) * static_cast<std::int64_t>(experiment.heads() * sizeof(double));  // losses
  return bytes;
}

/// The bytes of rank 0's layers, and of the redistributions of the values that they read, by what they carry.
PerPayload<std::int64_t> model_bytes_of_rank_0(const RunPlan& plan, const PlannerOptions& options) {
  // The last stage also brings the result into the plan's output.
  const auto is_mine = [&](std::size_t application) {
    for (int stage = 0; stage < plan.stages(); ++stage)
      if (static_cast<std::int64_t>(application) < plan.range(stage).end() || stage + 1 == plan.stages())
        return plan.has_stage(0, stage);
    return false;
  };
  const PlacementReport planned = placement_report(*plan.model, *plan.placement, options);
  PlacementTotals mine;
  for (std::size_t i = 0; i < planned.layers.size(); ++i)
    if (is_mine(i)) mine.add(planned.layers[i]);
  for (const RedistributionCost& redistribution : planned.redistributions)
    if (is_mine(redistribution.reader))
      for (const RedistributionStepCost& step : redistribution.steps) {
        if (step.forward) mine.add(*step.forward);
        if (step.backward) mine.add(*step.backward);
      }
  PerPayload<std::int64_t> bytes{};
  for (std::size_t payload = 0; payload < bytes.size(); ++payload) bytes[payload] = mine.traffic[payload].bytes;
  return bytes;
}

/// The bytes of the heads' collectives.
std::int64_t head_bytes_of_rank_0(const Experiment& experiment, const RunPlan& plan, const PlannerOptions& options) {
  if (!experiment.head.is_everywhere() && !plan.has_stage(0, plan.stages() - 1)) return 0;
  std::int64_t bytes = 0;
  for (const LayerCosts& head : planned_heads(experiment, *plan.model, options, plan.last_rank()))
    for (const CollectiveCost& collective : head.collectives) bytes += collective.bytes;
  return bytes;
}

/// The bytes that a rank sends while numbers in f64 are summed over the ranks along these axes.
std::int64_t sum_bytes(const ModelSpec& model, const PlannerOptions& options, AxisSet axes, std::int64_t numbers) {
  const LayerCollective sum{LayerCollective::When::step_end, Operation::all_reduce, options.mesh.larger_than_one(axes),
                            numbers, DType::f64};
  return PlacementCosts(model, options).cost(Payload::gradients, sum).bytes;
}

/// Whether an image of a step may be broken.
bool reads_files(const Experiment& experiment) {
  bool any = false;
  for (std::size_t set = 0; set < experiment.heads(); ++set) any = any || is_encoded(experiment.data_of(set));
  return any;
}

bool sample_varies(const Experiment& experiment, std::size_t set) {
  const HeadConfig& head = experiment.head_of(set);
  const std::int64_t ranks = mesh_of(experiment).size(head.class_axes());
  const SampleShape shape{head.classes, head.sample.shards_over(ranks), head.sample.rate};
  const std::int64_t samples = experiment.shares().before(set, experiment.train.batch);
  return head.samples() && (!head.split.empty() || varies_in_size(shape, ranks, samples));
}

}  // namespace

std::int64_t StepBytes::total() const {
  return std::accumulate(model.begin(), model.end(), head + stages);
}

std::int64_t squares_of(const Experiment& experiment, const ModelSpec& model) {
  auto squares = static_cast<std::int64_t>(experiment.heads());
  for (const auto& application : model.applications()) squares += static_cast<std::int64_t>(application.parameters);
  return squares;
}

bool sample_varies(const Experiment& experiment) {
  for (std::size_t set = 0; set < experiment.heads(); ++set)
    if (sample_varies(experiment, set)) return true;
  return false;
}

bool has_step_bytes(const Experiment& experiment, const ModelSpec& model) {
  for (std::size_t set = 0; set < experiment.heads(); ++set) {
    const bool sends_sample = mesh_of(experiment).size(experiment.head_of(set).copy_axes()) > 1;
    if (sends_sample && sample_varies(experiment, set)) return false;
  }
  const TrainConfig& train = experiment.train;
  const bool recomputes = std::any_of(model.applications().begin(), model.applications().end(),
                                      [](const ModelSpec::Application& each) { return each.recomputed; });
  const bool is_even =
      micro_batch_samples(experiment, mesh_of(experiment), 0).size * train.micro_batches == train.batch;
  return is_even && !recomputes && !experiment.train.forward_only &&
         experiment.pipeline.recompute == Recompute::never && experiment.head.loss_every == 1;
}

StepBytes step_bytes(const Experiment& experiment, const RunPlan& plan) {
  const ModelSpec& model = *plan.model;
  const PlannerOptions options = planner_options(experiment, model, plan.placement->mesh);
  StepBytes bytes{.model = model_bytes_of_rank_0(plan, options),
                  .head = head_bytes_of_rank_0(experiment, plan, options),
                  .stages = crossing_bytes_of_rank_0(experiment, plan, options)};
  if (!experiment.head.is_everywhere() && plan.copies() > 1)
    bytes.stages += sum_bytes(model, options, {Axis::pp}, static_cast<std::int64_t>(experiment.heads()));  // losses
  const auto add_sum_over_all_ranks = [&](std::int64_t numbers) {
    bytes.model[static_cast<std::size_t>(Payload::gradients)] += sum_bytes(model, options, every_axis, numbers);
  };
  if (experiment.train.clip.norm > 0) add_sum_over_all_ranks(squares_of(experiment, model));
  if (experiment.has_loss_scale()) add_sum_over_all_ranks(1);  // whether a gradient has overflowed
  if (reads_files(experiment)) add_sum_over_all_ranks(1);      // whether an image is broken
  return bytes;
}

}  // namespace heddle
