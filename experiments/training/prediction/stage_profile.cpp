#include "experiments/training/prediction/stage_profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "experiments/training/planning/model_layout.h"
#include "experiments/training/prediction/profiled_steps.h"
#include "experiments/training/prediction/ranks_profile.h"
#include "experiments/training/prediction/span_samples.h"
#include "experiments/training/span_names.h"
#include "framework/description/plain_text.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {

namespace {

/// The experiment without pipeline and replicas, with micro-batches as large as the largest ones of its ranks.
Experiment serial_experiment(const Experiment& experiment) {
  Experiment serial = profiled_experiment(experiment);
  serial.mesh = {};
  if (experiment.is_virtual_time()) serial.mesh.tp = experiment.mesh.tp;
  for (std::size_t i = 0; i < serial.heads(); ++i) {
    serial.head_of(i).over = every_axis;
    serial.head_of(i).split.clear();
  }
  serial.ranks = {};
  serial.memory_budget = 0;
  const std::int64_t parts = experiment.train.micro_batches * experiment.mesh.dp;
  serial.train.batch = shard(experiment.train.batch, parts, 0).size * serial.train.micro_batches;
  serial.train.shard = ShardedState::none;
  return serial;
}

/// All stages on one rank, one micro-batch after the other, in the order in which a rank computes the layers of its
/// stage, so that weights are in the cache, or not, as they would be there.
Schedule one_by_one(int stages, int micro_batches) {
  Schedule schedule{micro_batches, std::vector<int>(static_cast<std::size_t>(stages), 0), {{}}};
  std::vector<Action>& list = schedule.ranks[0];
  for (int i = 0; i < micro_batches; ++i) {
    for (int stage = 0; stage < stages; ++stage) list.push_back({ActionKind::forward, stage, i});
    for (int stage = stages - 1; stage >= 0; --stage) list.push_back({ActionKind::backward, stage, i});
  }
  return schedule;
}

/// What all ranks of a schedule compute, on one rank, in the order in which they would begin if all took equally long:
/// as many micro-batches are held as they hold together, and a stage's values are as cold when it comes to its turn.
/// What is offloaded comes back at once, which measures its bytes.
Schedule on_one_rank(Schedule schedule) {
  std::set<std::pair<int, int>> offloaded;  // stages and micro-batches
  for (std::vector<Action>& list : schedule.ranks) {
    for (const Action& action : list)
      if (action.kind == ActionKind::offload) offloaded.emplace(action.stage, action.micro_batch);
    std::erase_if(list,
                  [](const Action& a) { return is_message(a.kind) || is_offload_or_load(a.kind) || is_loss(a.kind); });
  }
  std::vector<TimedAction> all;
  for (const std::vector<TimedAction>& rank : simulate(schedule, {}).timeline.ranks)
    all.insert(all.end(), rank.begin(), rank.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const TimedAction& a, const TimedAction& b) { return a.begin < b.begin; });
  Schedule one{schedule.micro_batches, std::vector<int>(schedule.rank_of.size(), 0), {{}}};
  for (TimedAction& timed : all) {
    timed.action.overlaps_next = false;
    one.ranks[0].push_back(timed.action);
    const auto [kind, stage, micro_batch, overlaps] = timed.action;
    if (kind != ActionKind::forward || !offloaded.contains({stage, micro_batch})) continue;
    one.ranks[0].push_back({ActionKind::offload, stage, micro_batch});
    one.ranks[0].push_back({ActionKind::load, stage, micro_batch});
  }
  return one;
}

std::shared_ptr<const RunPlan> serial_plan(const Experiment& serial, std::shared_ptr<const ModelSpec> model,
                                           const StageCut& cut, const Schedule& schedule) {
  auto placement = std::make_shared<ModelPlacement>(placement_of(*model, serial, mesh_of(serial)));
  auto plan = std::make_shared<RunPlan>(std::move(model), std::move(placement));
  plan->cut = cut;
  plan->has_sqrt_segments = serial.pipeline.recompute == Recompute::sqrt;
  if (serial.train.forward_only)
    plan->training = plan->forward = make_program(schedule);
  else
    plan->training = make_program(with_loss(schedule, LossForm::on_last_stage));
  return plan;
}

StageProfile profile_of(const SpanSamples& samples, int stages, std::int64_t micro_batches) {
  StageProfile profile;
  for (int stage = 0; stage < stages; ++stage) {
    profile.first.push_back(samples.stage_costs(stage, micro_batches, Counted::first));
    profile.later.push_back(samples.stage_costs(stage, micro_batches, Counted::later));
    profile.offloaded_bytes.push_back(samples.offloaded_bytes(stage, micro_batches));
  }
  profile.loss = samples.mean_of(ActionKind::loss, stages - 1, micro_batches, Counted::all);
  profile.head_weight = samples.sum_of(span_names::head_weight) / static_cast<double>(micro_batches);
  profile.head_norm = samples.sum_of(span_names::head_norm) / static_cast<double>(micro_batches);
  return profile;
}

/// The number of elements of all trained parameters, over the number of those that one rank has.
double elements_over_held(const RunPlan& plan) {
  double all = 0;
  double held = 0;
  const auto& applications = plan.model->applications();
  for (std::size_t i = 0; i < applications.size(); ++i) {
    const LayerLayout layout = plan.placement->layout(*plan.model, i, {});
    const std::vector<Shape> shapes = applications[i].layer->parameters();
    all += static_cast<double>(applications[i].layer->trained_elements());
    for (std::size_t parameter = 0; parameter < shapes.size(); ++parameter) {
      if (applications[i].layer->trains(parameter))
        held += static_cast<double>(layout.part(parameter, shapes[parameter]).held_shape().numel());
    }
  }
  return held > 0 ? all / held : 1;
}

/// Turns the profile of one of `measured` ranks along tp into that of one of `ranks`.
void scale(StageProfile& profile, std::int64_t measured, std::int64_t ranks, const RunPlan& plan) {
  const auto whole = static_cast<double>(measured);
  profile.loss *= whole;
  profile.head_weight *= whole;
  profile.head_norm *= whole;
  profile.optimizer *= elements_over_held(plan);
  const double part = whole / static_cast<double>(ranks);
  for (std::vector<StageCosts>* const stages : {&profile.first, &profile.later})
    for (StageCosts& costs : *stages)
      for (double StageCosts::*cost : {&StageCosts::forward, &StageCosts::backward_input, &StageCosts::backward_weight,
                                       &StageCosts::recompute, &StageCosts::offload})
        costs.*cost *= part;
  for (std::int64_t& bytes : profile.offloaded_bytes) bytes = std::llround(part * static_cast<double>(bytes));
}

/// Profiles the steps of the serial experiment. `ranks`: the number of the run's ranks along tp.
std::vector<StageProfile> measure(const Experiment& serial, const Dataset& dataset,
                                  const std::shared_ptr<const RunPlan>& plan, std::int64_t ranks) {
  std::vector<StageProfile> profiles;
  const std::vector<std::vector<ProfiledStep>> by_rank = run_profiled(serial, dataset, plan);
  for (const ProfiledStep& step : by_rank.front()) {
    StageProfile& profile = profiles.emplace_back(profile_of(step.spans, plan->stages(), serial.train.micro_batches));
    profile.optimizer = step.update;
    scale(profile, serial.mesh.tp, ranks, *plan);
  }
  return profiles;
}

/// A rank's parts of the heads, if ranks along dp share classes: it then sees the samples of several. Else empty.
std::vector<HeadPart> parts_over_dp(const Experiment& experiment, const RunPlan& plan) {
  std::vector<HeadPart> parts =
      head_parts(experiment, planner_options(experiment, *plan.model, plan.placement->mesh), plan.last_rank());
  bool shares = false;
  for (std::size_t set = 0; set < experiment.heads(); ++set)
    shares = shares || experiment.head_of(set).class_axes().contains(Axis::dp);
  if (!shares || experiment.mesh.dp == 1 || experiment.train.forward_only) parts.clear();
  return parts;
}

/// The steps in `known` of this experiment and cut, and of this part of each head that is measured by itself; empty if
/// none were measured yet.
std::vector<StageProfile>& known_steps(const Experiment& profiled, const RunPlan& plan, StageProfiles& known,
                                       std::span<const HeadPart> heads = {}) {
  std::string key = plain_text([copy = profiled](Describer& d) mutable { describe(d, copy); });
  key += name_of(profiled.planned);
  for (const int begin : plan.cut.begins) key += fmt::format(" {}", begin);
  for (const HeadPart& head : heads) key += fmt::format(" head {} x {}", head.rows, head.classes);
  return known[key];
}

}  // namespace

const std::vector<StageProfile>& profile_stages(const Experiment& experiment, const Dataset& dataset,
                                                const RunPlan& plan, StageProfiles& known) {
  if (experiment.is_virtual_time() && experiment.device != DeviceType::plan) {
    std::vector<StageProfile>& steps = known_steps(experiment, plan, known);
    for (StageProfile& step : profile_ranks(experiment, dataset, plan)) steps.push_back(std::move(step));
    return steps;
  }
  const Experiment serial = serial_experiment(experiment);
  const Schedule& schedule = (experiment.train.forward_only ? plan.forward : plan.training)->schedule;
  const std::vector<HeadPart> heads = parts_over_dp(experiment, plan);
  std::vector<StageProfile>& steps = known_steps(serial, plan, known, heads);
  if (experiment.device == DeviceType::plan && !steps.empty()) return steps;
  std::vector<StageProfile> measured =
      measure(serial, dataset, serial_plan(serial, plan.model, plan.cut, on_one_rank(schedule)), experiment.mesh.tp);
  if (!heads.empty()) {
    HeadProfiles none;
    const HeadProfile of_rank = profile_heads(experiment, embedding_size(*plan.model), heads, none);
    for (StageProfile& step : measured) step.set_heads(of_rank, experiment, plan.placement->mesh);
  }
  steps.insert(steps.end(), measured.begin(), measured.end());
  return steps;
}

void StageProfile::set_heads(const HeadProfile& part, const Experiment& experiment, const Mesh& mesh) {
  const double whole = static_cast<double>(mesh.size(experiment.head.axes())) / static_cast<double>(experiment.mesh.dp);
  loss = whole * part.loss;
  head_weight = whole * part.weight;
  head_norm = whole * part.norm;
}

namespace {

/// The share of each application in the number of trained parameters.
std::vector<double> shares_of_parameters(const ModelSpec& model) {
  std::vector<double> shares;
  for (const auto& application : model.applications())
    shares.push_back(static_cast<double>(application.layer->trained_elements()));
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= std::max(all, 1.0);
  return shares;
}

}  // namespace

std::vector<double> profile_applications(const Experiment& experiment, const Dataset& dataset,
                                         std::shared_ptr<const ModelSpec> model, StageProfiles& known) {
  Experiment serial = serial_experiment(experiment);
  const Recompute recompute = serial.pipeline.recompute;
  serial.pipeline = {};  // they cost the same under every schedule
  serial.pipeline.recompute = recompute;
  serial.pipeline.recompute_layers = experiment.pipeline.recompute_layers;
  StageCut cut;
  cut.end = model->last_value();
  for (int i = 1; i < cut.end; ++i) cut.begins.push_back(i);
  const Schedule schedule =
      with_recompute(one_by_one(cut.stages(), static_cast<int>(serial.train.micro_batches)), recompute);
  const std::vector<double> shares = shares_of_parameters(*model);
  const auto micro_batches = static_cast<double>(serial.train.micro_batches);
  const auto marked = std::make_shared<const ModelSpec>(with_recomputed_layers(*model, serial.pipeline));
  const std::shared_ptr<const RunPlan> plan = serial_plan(serial, marked, cut, schedule);
  std::vector<StageProfile>& steps = known_steps(serial, *plan, known);
  if (steps.empty()) steps = measure(serial, dataset, plan, experiment.mesh.tp);
  std::vector<double> seconds(static_cast<std::size_t>(cut.stages()), 0);
  for (const StageProfile& profile : steps) {
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const StageCosts& costs = profile.later[i];
      seconds[i] += costs.forward + costs.recompute + costs.backward_input + costs.backward_weight +
                    shares[i] * profile.optimizer / micro_batches;
    }
    if (!experiment.head.is_everywhere())
      seconds.back() +=
          (profile.loss + profile.head_weight + profile.head_norm) / static_cast<double>(experiment.mesh.tp);
  }
  for (double& of_application : seconds) of_application /= static_cast<double>(steps.size());
  return seconds;
}

}  // namespace heddle
