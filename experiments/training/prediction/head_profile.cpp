#include "experiments/training/prediction/head_profile.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "experiments/training/planning/model_layout.h"
#include "experiments/training/planning/run_plan.h"
#include "experiments/training/prediction/profiled_steps.h"
#include "experiments/training/span_names.h"

namespace heddle {

namespace {

/// One head on one rank, behind a layer that costs next to nothing.
Experiment head_alone(const Experiment& experiment, std::size_t set, std::int64_t dimension, const HeadPart& part,
                      std::int64_t micro_batches) {
  Experiment alone = profiled_experiment(experiment);
  alone.mesh = {};
  alone.ranks = {};
  alone.memory_budget = 0;
  alone.pipeline = {};
  alone.model = {.type = ModelType::mlp, .embedding = dimension};
  alone.data = {};
  alone.data.synthetic_identities = {
      .identities = std::min<std::int64_t>(part.classes, 2), .image = {1, 1, 1}, .train_per_identity = 2};
  alone.further_data.clear();
  alone.head = experiment.head_of(set);
  alone.head.classes = part.classes;
  alone.head.over = every_axis;
  alone.head.split.clear();
  alone.further_heads.clear();
  alone.train.batch = part.rows * micro_batches;
  alone.train.micro_batches = micro_batches;
  alone.train.shard = ShardedState::none;
  alone.train.freeze.clear();
  return alone;
}

/// The sums over the micro-batches of a step.
HeadProfile measured(const Experiment& alone) {
  const std::shared_ptr<const Dataset> dataset = open_datasets(alone);
  const auto model = std::make_shared<ModelSpec>(model_of(alone, dataset->image()));
  const std::shared_ptr<const RunPlan> plan = plan_run(alone, model, mesh_of(alone));
  HeadProfile sum;
  const std::vector<ProfiledStep> steps = std::move(run_profiled(alone, *dataset, plan).front());
  const auto micro_batches = static_cast<double>(alone.train.micro_batches);
  for (const ProfiledStep& step : steps) {
    sum.loss += micro_batches * step.spans.mean_of(ActionKind::loss, 0, alone.train.micro_batches, Counted::all);
    sum.weight += step.spans.sum_of(span_names::head_weight);
    sum.norm += step.spans.sum_of(span_names::head_norm);
  }
  for (double HeadProfile::*cost : {&HeadProfile::loss, &HeadProfile::weight, &HeadProfile::norm})
    sum.*cost /= static_cast<double>(steps.size());
  return sum;
}

/// A step's costs grow by as much with each micro-batch after the first.
HeadProfile profile_head(const Experiment& experiment, std::size_t set, std::int64_t dimension, const HeadPart& part) {
  const auto of = [&](std::int64_t micro_batches) {
    return measured(head_alone(experiment, set, dimension, part, micro_batches));
  };
  const auto micro_batches = static_cast<double>(experiment.train.micro_batches);
  const HeadProfile one = of(1);
  if (micro_batches == 1) return one;
  const HeadProfile two = of(2);
  HeadProfile each;
  for (double HeadProfile::*cost : {&HeadProfile::loss, &HeadProfile::weight, &HeadProfile::norm})
    each.*cost = std::max(0.0, one.*cost + (micro_batches - 1) * (two.*cost - one.*cost)) / micro_batches;
  return each;
}

}  // namespace

HeadProfile profile_heads(const Experiment& experiment, std::int64_t dimension, std::span<const HeadPart> parts,
                          HeadProfiles& known) {
  HeadProfile sum;
  for (std::size_t set = 0; set < parts.size(); ++set) {
    const HeadPart& part = parts[set];
    if (part.rows == 0) continue;
    const std::string key = fmt::format("{} {} {} {} {}", set, part.rows, part.classes,
                                        name_of(experiment.head_of(set).logits), experiment.train.micro_batches);
    auto found = known.find(key);
    if (found == known.end() || experiment.device != DeviceType::plan)
      found = known.insert_or_assign(key, profile_head(experiment, set, dimension, part)).first;
    sum.loss += found->second.loss;
    sum.weight += found->second.weight;
    sum.norm += found->second.norm;
  }
  return sum;
}

}  // namespace heddle
