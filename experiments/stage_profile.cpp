#include "experiments/stage_profile.h"

#include <algorithm>
#include <optional>

#include "experiments/config/writer.h"
#include "experiments/placement.h"
#include "experiments/run.h"
#include "experiments/trainer.h"
#include "framework/device.h"

namespace heddle {

namespace {

constexpr std::int64_t most_micro_batches = 3;

/// The first step also builds the kernels, and makes what stays. On plan all others are alike.
std::int64_t steps_of(const Experiment& experiment) {
  return experiment.device == DeviceType::plan ? 2 : 4;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The experiment as one rank does it, on a few micro-batches as large as the largest ones of its ranks.
Experiment serial_experiment(const Experiment& experiment) {
  Experiment serial = experiment;
  serial.transport = TransportType::threads;
  serial.mesh = {};
  serial.links = {};
  serial.ranks = {};
  serial.memory_budget = 0;
  serial.train.micro_batches = std::min(experiment.train.micro_batches, most_micro_batches);
  const std::int64_t parts = experiment.train.micro_batches * experiment.mesh.dp;
  serial.train.batch = shard(experiment.train.batch, parts, 0).size * serial.train.micro_batches;
  serial.train.steps = steps_of(experiment);
  serial.train.shard = ShardedState::none;
  serial.train.save_every = 0;
  serial.evaluate = false;
  return serial;
}

bool splits_backward(const Schedule& schedule) {
  for (const auto& list : schedule.ranks)
    for (const Action& action : list)
      if (action.kind == ActionKind::backward_input) return true;
  return false;
}

/// All stages on one rank, each for all micro-batches before the next, as ranks of one stage would do them.
Schedule serial_schedule(int stages, int micro_batches, bool split) {
  Schedule schedule{micro_batches, std::vector<int>(static_cast<std::size_t>(stages), 0), {{}}};
  std::vector<Action>& list = schedule.ranks[0];
  for (int stage = 0; stage < stages; ++stage)
    for (int i = 0; i < micro_batches; ++i) list.push_back({ActionKind::forward, stage, i});
  for (int stage = stages - 1; stage >= 0; --stage) {
    for (int i = 0; i < micro_batches; ++i) {
      list.push_back({split ? ActionKind::backward_input : ActionKind::backward, stage, i});
      if (split) list.push_back({ActionKind::backward_weight, stage, i});
    }
  }
  return schedule;
}

struct CutModel {
  std::shared_ptr<const ModelDescription> model;
  StageCut cut{};
  bool split = false;
};

std::shared_ptr<const RunPlan> serial_plan(const Experiment& serial, const CutModel& cut) {
  auto plan = std::make_shared<RunPlan>();
  plan->model = cut.model;
  plan->placements = std::make_shared<PlacementPlan>(plan_of(*cut.model, serial, Mesh()));
  plan->cut = cut.cut;
  plan->has_sqrt_segments = serial.pipeline.recompute == Recompute::sqrt;
  const int stages = plan->stages();
  const int micro_batches = static_cast<int>(serial.train.micro_batches);
  plan->training = make_program(
      with_loss(with_recompute(serial_schedule(stages, micro_batches, cut.split), serial.pipeline.recompute),
                LossRanks::last_stage));
  if (serial.train.forward_only)
    plan->forward = make_program(forward_only(std::vector<int>(static_cast<std::size_t>(stages), 0), micro_batches));
  return plan;
}

/// What a rank recorded: seconds by a span's name.
class Samples {
 public:
  explicit Samples(const std::vector<Span>& spans) {
    for (const Span& span : spans)
      if (!span.is_communication) seconds_[span.name].push_back(span.seconds);
  }

  double median_of(const std::string& name) const {
    const auto found = seconds_.find(name);
    return found == seconds_.end() ? 0 : median(found->second);
  }
  /// Of some micro-batches.
  double median_of(ActionKind kind, int stage, const ShardRange& micro_batches) const {
    std::vector<double> all;
    for (int i = static_cast<int>(micro_batches.begin); i < micro_batches.end(); ++i)
      if (const auto found = seconds_.find(to_string(Action{kind, stage, i})); found != seconds_.end())
        all.insert(all.end(), found->second.begin(), found->second.end());
    return median(std::move(all));
  }

 private:
  std::map<std::string, std::vector<double>> seconds_;
};

std::vector<StageCosts> costs_of(const Samples& samples, int stages, const ShardRange& micro_batches) {
  std::vector<StageCosts> all;
  for (int stage = 0; stage < stages; ++stage) {
    const auto seconds = [&](ActionKind kind) { return samples.median_of(kind, stage, micro_batches); };
    StageCosts costs;
    costs.forward = seconds(ActionKind::forward);
    costs.backward_input = seconds(ActionKind::backward_input) + seconds(ActionKind::backward);
    costs.backward_weight = seconds(ActionKind::backward_weight);
    costs.recompute = seconds(ActionKind::recompute);
    all.push_back(costs);
  }
  all.front().forward += samples.median_of("load");
  return all;
}

StageProfile profile_of(const Samples& samples, int stages, std::int64_t micro_batches) {
  StageProfile profile;
  profile.first = costs_of(samples, stages, {0, 1});
  profile.later = micro_batches == 1 ? profile.first : costs_of(samples, stages, {1, micro_batches - 1});
  profile.loss = samples.median_of(ActionKind::loss, stages - 1, {0, micro_batches});
  profile.head_weight = samples.median_of("head weight") / static_cast<double>(micro_batches);
  return profile;
}

StageProfile measure(const Experiment& serial, const Dataset& dataset, const std::shared_ptr<const RunPlan>& plan) {
  StageProfile profile;
  run_ranks(world_options(serial), [&](Rank& rank) {
    const auto tracer = std::make_shared<Tracer>(rank.clock);
    Trainer trainer(serial, dataset, rank, *tracer, plan);
    std::vector<double> updates;
    for (std::int64_t step = 0; step < serial.train.steps; ++step) {
      tracer->set_recording(step > 0);
      if (serial.train.forward_only) {
        trainer.forward(step);
        continue;
      }
      (void)trainer.compute_gradients(step);
      const double begin = rank.clock.now();
      (void)trainer.apply_gradients(step);
      if (step > 0) updates.push_back(rank.clock.now() - begin);
    }
    profile = profile_of(Samples(tracer->take_spans()), plan->stages(), serial.train.micro_batches);
    profile.optimizer = median(std::move(updates));
  });
  return profile;
}

StageProfile known_or_measured(const Experiment& experiment, const Dataset& dataset, const CutModel& cut,
                               StageProfiles& known) {
  Experiment serial = serial_experiment(experiment);
  serial.pipeline = {};  // of the schedule only this matters
  serial.pipeline.recompute = experiment.pipeline.recompute;
  serial.pipeline.recompute_layers = experiment.pipeline.recompute_layers;
  std::string key = write_json([&serial](Describer& d) { describe(d, serial); }) + (cut.split ? "split" : "whole");
  for (const int begin : cut.cut.begins) key += fmt::format(" {}", begin);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(std::move(key), measure(serial, dataset, serial_plan(serial, cut))).first->second;
}

}  // namespace

StageProfile profile_stages(const Experiment& experiment, const Dataset& dataset, const RunPlan& plan,
                            StageProfiles& known) {
  return known_or_measured(experiment, dataset, {plan.model, plan.cut, splits_backward(plan.training->schedule)},
                           known);
}

std::vector<double> profile_applications(const Experiment& experiment, const Dataset& dataset,
                                         std::shared_ptr<const ModelDescription> model, StageProfiles& known) {
  CutModel cut{.model = std::move(model)};
  cut.cut.end = cut.model->last_value();
  for (int i = 1; i < cut.cut.end; ++i) cut.cut.begins.push_back(i);
  const StageProfile profile = known_or_measured(experiment, dataset, cut, known);
  std::vector<double> seconds;
  for (const StageCosts& costs : profile.later)
    seconds.push_back(costs.forward + costs.recompute + costs.backward_input + costs.backward_weight);
  if (experiment.head.ranks == HeadRanks::last_stage) seconds.back() += profile.loss + profile.head_weight;
  return seconds;
}

}  // namespace heddle
