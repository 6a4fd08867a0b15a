#include "experiments/training/prediction/stage_profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "experiments/training/layout/model_layout.h"
#include "experiments/training/ranks/world_options.h"
#include "experiments/training/span_names.h"
#include "experiments/training/trainer.h"
#include "framework/description/plain_text.h"
#include "framework/tensors/device.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {

namespace {

/// The first step also builds the kernels and allocates what stays. On plan all other steps are equal.
std::int64_t profiled_steps(const Experiment& experiment) {
  return experiment.device == DeviceType::plan ? 2 : 4;
}

/// The mean time of a step's actions. The median would not do: a step is the sum of its actions, the slow ones too.
double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The experiment without pipeline and replicas, with micro-batches as large as the largest ones of its ranks.
Experiment serial_experiment(const Experiment& experiment) {
  Experiment serial = experiment;
  serial.transport = Experiment().transport;
  serial.mesh = {};
  if (experiment.is_virtual_time()) serial.mesh.tp = experiment.mesh.tp;
  for (std::size_t i = 0; i < serial.heads(); ++i) {
    serial.head_of(i).over = every_axis;
    serial.head_of(i).split.clear();
  }
  constexpr Link at_once{.latency = 0, .bandwidth = 1e18};
  serial.links = {.within_node = at_once};
  serial.ranks = {};
  serial.memory_budget = 0;
  const std::int64_t parts = experiment.train.micro_batches * experiment.mesh.dp;
  serial.train.batch = shard(experiment.train.batch, parts, 0).size * serial.train.micro_batches;
  serial.train.steps = profiled_steps(experiment);
  serial.train.shard = ShardedState::none;
  serial.train.save_every = 0;
  serial.pipeline.head_work = HeadWork::at_once;
  serial.evaluate = false;
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
    std::erase_if(list, [](const Action& a) { return is_message(a.kind) || is_transfer(a.kind) || is_loss(a.kind); });
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
    plan->training = make_program(with_loss(schedule, LossRanks::last_stage));
  return plan;
}

/// Which micro-batches of a stage a mean is over: the first one that came, all others, or all.
enum class Counted { first, later, all };

/// The seconds that a rank recorded, by the span's name.
class Samples {
 public:
  explicit Samples(const std::vector<Span>& spans) {
    for (const Span& span : spans) {
      const auto [place, is_new] = seconds_.try_emplace(span.name);
      if (is_new) begun_[span.name] = begun_.size();
      place->second.push_back(span.seconds);
      bytes_[span.name] = span.bytes;
    }
  }

  /// The sum over the spans of one step: each head has its own.
  double sum_of(const std::string& name) const {
    const auto found = seconds_.find(name);
    return found == seconds_.end() ? 0 : std::accumulate(found->second.begin(), found->second.end(), 0.0);
  }
  double mean_of(const std::string& name) const {
    const auto found = seconds_.find(name);
    return found == seconds_.end() ? 0 : mean(found->second);
  }
  /// The bytes of the largest O of a stage.
  std::int64_t offloaded_bytes(int stage, std::int64_t micro_batches) const {
    std::int64_t most = 0;
    for (int i = 0; i < micro_batches; ++i)
      if (const auto found = bytes_.find(to_string(Action{ActionKind::offload, stage, i})); found != bytes_.end())
        most = std::max(most, found->second);
    return most;
  }
  /// The mean over some of the micro-batches. If there is only one, it also counts as a later one.
  double mean_of(ActionKind kind, int stage, std::int64_t micro_batches, Counted counted) const {
    std::map<std::size_t, std::string> names;  // in the order of their begins
    for (int i = 0; i < micro_batches; ++i)
      if (const auto found = begun_.find(to_string(Action{kind, stage, i})); found != begun_.end())
        names.emplace(found->second, found->first);
    std::vector<double> all;
    for (const auto& [order, name] : names) {
      const bool is_first = order == names.begin()->first;
      const bool is_later = !is_first || names.size() == 1;
      if (counted == Counted::first ? !is_first : counted == Counted::later && !is_later) continue;
      const std::vector<double>& seconds = seconds_.at(name);
      all.insert(all.end(), seconds.begin(), seconds.end());
    }
    return mean(all);
  }

 private:
  std::map<std::string, std::vector<double>> seconds_;
  std::map<std::string, std::size_t> begun_;  // the order in which the names first occur
  std::map<std::string, std::int64_t> bytes_;
};

std::vector<StageCosts> costs_of(const Samples& samples, int stages, std::int64_t micro_batches, Counted counted) {
  std::vector<StageCosts> all;
  for (int stage = 0; stage < stages; ++stage) {
    const auto seconds = [&](ActionKind kind) { return samples.mean_of(kind, stage, micro_batches, counted); };
    StageCosts costs;
    costs.forward = seconds(ActionKind::forward);
    // A B is the sum of both parts; some schedules have it for some of the micro-batches only.
    costs.backward_input = seconds(ActionKind::backward_input);
    costs.backward_weight = seconds(ActionKind::backward_weight);
    if (costs.backward_input + costs.backward_weight == 0) costs.backward_input = seconds(ActionKind::backward);
    costs.recompute = seconds(ActionKind::recompute);
    costs.offload = seconds(ActionKind::offload);
    all.push_back(costs);
  }
  all.front().forward += samples.mean_of(span_names::load);
  return all;
}

/// Where a rank updates its classes while the gradients of the embeddings are summed, H has the time of both: leaves
/// that of the update out.
std::vector<Span> without_updates_in_loss(std::vector<Span> spans, int stages) {
  const std::string loss = to_string(Action{ActionKind::loss, stages - 1, 0});  // only for a single micro-batch
  for (Span& whole : spans) {
    if (whole.name != loss) continue;
    const double end = whole.begin_seconds + whole.seconds;
    for (const Span& part : spans)
      if (part.name == span_names::head_weight && part.begin_seconds >= whole.begin_seconds && part.begin_seconds < end)
        whole.seconds -= part.seconds;
  }
  return spans;
}

StageProfile profile_of(const Samples& samples, int stages, std::int64_t micro_batches) {
  StageProfile profile;
  profile.first = costs_of(samples, stages, micro_batches, Counted::first);
  profile.later = costs_of(samples, stages, micro_batches, Counted::later);
  for (int stage = 0; stage < stages; ++stage)
    profile.offloaded_bytes.push_back(samples.offloaded_bytes(stage, micro_batches));
  profile.loss = samples.mean_of(ActionKind::loss, stages - 1, micro_batches, Counted::all);
  profile.head_weight = samples.sum_of(span_names::head_weight) / static_cast<double>(micro_batches);
  profile.head_norm = samples.sum_of(span_names::head_norm) / static_cast<double>(micro_batches);
  return profile;
}

/// The elements of all parameters, for each that a rank has.
double copies_of_parameters(const RunPlan& plan) {
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

/// Makes of what one of `measured` ranks has taken the profile of one of `ranks` along tp.
void scale(StageProfile& profile, std::int64_t measured, std::int64_t ranks, const RunPlan& plan) {
  const auto whole = static_cast<double>(measured);
  profile.loss *= whole;
  profile.head_weight *= whole;
  profile.head_norm *= whole;
  profile.optimizer *= copies_of_parameters(plan);
  const double part = whole / static_cast<double>(ranks);
  for (std::vector<StageCosts>* const stages : {&profile.first, &profile.later})
    for (StageCosts& costs : *stages)
      for (double StageCosts::*cost : {&StageCosts::forward, &StageCosts::backward_input, &StageCosts::backward_weight,
                                       &StageCosts::recompute, &StageCosts::offload})
        costs.*cost *= part;
  for (std::int64_t& bytes : profile.offloaded_bytes) bytes = std::llround(part * static_cast<double>(bytes));
}

/// `ranks`: those along tp.
std::vector<StageProfile> measure(const Experiment& serial, const Dataset& dataset,
                                  const std::shared_ptr<const RunPlan>& plan, std::int64_t ranks) {
  std::vector<StageProfile> steps;
  run_ranks(world_options(serial), [&](Rank& rank) {
    const auto tracer = std::make_shared<Tracer>(rank.clock, rank.device);
    Trainer trainer(serial, dataset, rank, *tracer, plan);
    const auto settled_now = [&rank] {
      rank.device.backend().settle();
      return rank.clock.now();
    };
    for (std::int64_t step = 0; step < serial.train.steps; ++step) {
      tracer->set_recording(step > 0);
      double update = 0;
      std::vector<Span> spans;
      if (serial.train.forward_only) {
        trainer.forward(step);
      } else {
        (void)trainer.compute_gradients(step);
        spans = tracer->take_spans();
        const double begin = settled_now();
        (void)trainer.apply_gradients(step);
        update = settled_now() - begin;
      }
      if (step == 0 || rank.index > 0) continue;
      const std::vector<Span> later = tracer->take_spans();
      const Samples of_update(later);
      spans.insert(spans.end(), later.begin(), later.end());
      const Samples samples(without_updates_in_loss(std::move(spans), plan->stages()));
      StageProfile profile = profile_of(samples, plan->stages(), serial.train.micro_batches);
      const double of_heads = of_update.sum_of(span_names::head_weight) + of_update.sum_of(span_names::head_norm);
      profile.optimizer = std::max(0.0, update - of_heads);
      scale(profile, serial.mesh.tp, ranks, *plan);
      steps.push_back(std::move(profile));
    }
  });
  return steps;
}

/// The measured steps of this experiment and cut; none if they were not measured yet.
std::vector<StageProfile>& known_steps(const Experiment& serial, const RunPlan& plan, StageProfiles& known) {
  std::string key = plain_text([copy = serial](Describer& d) mutable { describe(d, copy); });
  key += name_of(serial.planned);
  for (const int begin : plan.cut.begins) key += fmt::format(" {}", begin);
  return known[key];
}

}  // namespace

const std::vector<StageProfile>& profile_stages(const Experiment& experiment, const Dataset& dataset,
                                                const RunPlan& plan, StageProfiles& known) {
  const Experiment serial = serial_experiment(experiment);
  const Schedule& schedule = (experiment.train.forward_only ? plan.forward : plan.training)->schedule;
  std::vector<StageProfile>& steps = known_steps(serial, plan, known);
  if (experiment.device == DeviceType::plan && !steps.empty()) return steps;
  for (StageProfile& step :
       measure(serial, dataset, serial_plan(serial, plan.model, plan.cut, on_one_rank(schedule)), experiment.mesh.tp))
    steps.push_back(std::move(step));
  return steps;
}

namespace {

/// The share of each application in the number of parameters.
std::vector<double> shares_of_parameters(const ModelSpec& model) {
  std::vector<double> shares;
  for (const auto& application : model.applications())
    shares.push_back(static_cast<double>(application.layer->parameter_elements()));
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
  const std::shared_ptr<const RunPlan> plan = serial_plan(serial, std::move(model), cut, schedule);
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
