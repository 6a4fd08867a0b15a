#include "experiments/training/prediction/prediction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "experiments/training/planning/model_layout.h"
#include "experiments/training/planning/planned_head.h"
#include "experiments/training/planning/step_bytes.h"
#include "experiments/training/prediction/bucket_sums.h"
#include "experiments/training/prediction/stepped_elements.h"
#include "layers/stages/segments.h"
#include "layers/stages/stage_cut.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {

namespace {

class Prediction {
 public:
  Prediction(const Experiment& experiment, const RunPlan& plan, const StageProfile& profile,
             std::span<const LayerMessages> layers)
      : experiment_(experiment),
        plan_(plan),
        profile_(profile),
        layers_(layers),
        mesh_(plan.placement->mesh),
        options_(planner_options(experiment, *plan.model, mesh_)),
        schedule_((experiment.train.forward_only ? plan.forward : plan.training)->schedule),
        trained_elements_(trained_elements(experiment, plan)) {
    if (!experiment.is_virtual_time() || head_ranks() * plan.copies() == 1) return;
    for (const LayerCosts& head : planned_heads(experiment, *plan.model, options_, plan.last_rank()))
      for (const CollectiveCost& collective : head.collectives) {
        if (collective.payload != Payload::activations)
          weight_messages_ += collective.seconds;
        else if (experiment.pipeline.head_work == HeadWork::at_once || !collective.axes.contains(Axis::pp))
          loss_messages_ += collective.seconds;  // between copies of the classes, also of a head in parts
      }
    if (experiment.pipeline.head_work != HeadWork::at_once)
      loss_parts_ = planned_loss_messages(experiment, embedding_size(*plan.model), options_, plan.last_rank());
  }

  /// All pipelines wait for the slowest one.
  PredictedStep step() {
    std::optional<PredictedStep> slowest;
    for (const std::vector<double>& speeds : speeds_of_pipelines()) {
      speeds_ = speeds;
      PredictedStep step = step_of_pipeline();
      if (!slowest || step.seconds > slowest->seconds) slowest = std::move(step);
    }
    return std::move(slowest.value());
  }

 private:
  PredictedStep step_of_pipeline() const {
    Simulation simulation = simulate(schedule_, {.stages = stage_costs(),
                                                 .transfer = transfers(),
                                                 .loss_messages = loss_parts_,
                                                 .speed = speeds_,
                                                 .overlap = 0});
    double check_begin = 0;
    double max_late_update = 0;
    for (int rank = 0; rank < schedule_.size(); ++rank) {
      const std::vector<TimedAction>& timed = simulation.timeline.ranks[static_cast<std::size_t>(rank)];
      if (timed.empty()) continue;
      // A replicated head's gradient is summed before the overflow check, the other heads step their weights after it.
      const bool is_replicated = heads_are_replicated();
      const BucketSums sums = sums_of(rank, timed.back());
      check_begin = std::max(check_begin, std::max(timed.back().end + sums.copy_seconds(), sums.end()) +
                                              (is_replicated ? head_weight_seconds(rank) : 0));
      // The new weights are gathered in as much time as the gradients are summed.
      const double gathers = shards_optimizer() ? sums.message_seconds() + sums.copy_seconds() : 0;
      const double updates = update_seconds(rank) + gathers + (is_replicated ? 0 : head_weight_seconds(rank));
      // A rank whose first action comes later in the next step has updated its weights by then, at least in part.
      max_late_update = std::max(max_late_update, updates - timed.front().begin);
    }
    return {.seconds = check_begin + check_seconds() + norm_seconds() + max_late_update,
            .peak_memory = std::move(simulation.peak_memory)};
  }

  static double ratio(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }
  double micro_batches() const { return static_cast<double>(experiment_.train.micro_batches); }
  /// Whether all heads are replicated. Where only some are, their part is counted with the others'.
  bool heads_are_replicated() const {
    bool are_replicated = true;
    for (std::size_t i = 0; i < experiment_.heads(); ++i)
      are_replicated = are_replicated && experiment_.head_of(i).is_replicated();
    return are_replicated;
  }
  bool head_is_everywhere() const { return experiment_.head.is_everywhere(); }
  bool trains_head(int rank) const { return heddle::trains_head(experiment_, plan_, rank); }
  /// The ranks that share a micro-batch's work of the head.
  int head_ranks() const { return mesh_.size(experiment_.head.axes()); }
  /// The micro-batches that a rank of the head sees: those of one copy of the last stage, or all.
  double seen_by_head() const {
    return head_is_everywhere() ? micro_batches() : static_cast<double>(options_.micro_batches);
  }
  int world_rank(int rank) const { return mesh_.rank({.pp = rank}); }
  double speed(int rank) const { return speeds_[static_cast<std::size_t>(rank)]; }
  /// The different speeds of the pipelines' ranks; the ranks along tp go as fast as the slowest of them. Replicas that
  /// were profiled together are one pipeline, as fast as the slowest rank along dp and tp.
  std::set<std::vector<double>> speeds_of_pipelines() const {
    const std::vector<double> equal(schedule_.ranks.size(), 1);
    if (experiment_.ranks.speed.empty() || !experiment_.is_virtual_time()) return {equal};
    const AxisSet together = profile_.is_of_ranks ? AxisSet{Axis::dp, Axis::tp} : AxisSet{Axis::tp};
    std::set<std::vector<double>> all;
    for (int dp = 0; dp < mesh_.size(Axis::dp); ++dp) {
      std::vector<double> speeds;
      for (int pp = 0; pp < schedule_.size(); ++pp)
        speeds.push_back(experiment_.ranks.slowest_of(mesh_.ranks_over(together, mesh_.rank({dp, pp, 0}))));
      all.insert(std::move(speeds));
    }
    return all;
  }

  /// The sums of a rank's gradients, from its last layer to its first: those of its last action while that is
  /// computing, those of its other stages when it begins.
  BucketSums sums_of(int rank, const TimedAction& last) const {
    BucketSums sums(experiment_.links, shards_optimizer() ? Operation::reduce_scatter : Operation::all_reduce,
                    experiment_.train.bucket_bytes, copy_seconds_per_byte(), [&](AxisSet axes) {
                      return spread_of(experiment_.links, mesh_.ranks_over(axes, world_rank(rank)));
                    });
    if (!experiment_.is_virtual_time() || experiment_.train.forward_only) return sums;
    for (int stage = plan_.stages() - 1; stage >= 0; --stage) {
      if (!plan_.has_stage(rank, stage)) continue;
      const IndexRange range = plan_.range(stage);
      const std::span<const LayerMessages> layers =
          layers_.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size));
      const double all = std::accumulate(layers.begin(), layers.end(), 0.0,
                                         [](double sum, const LayerMessages& layer) { return sum + layer.computing; });
      double computed = 0;
      for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
        computed += layer->computing;
        const double share = stage == last.action.stage && all > 0 ? computed / all : 0;
        const double ready = last.begin + share * (last.end - last.begin);
        for (unsigned index = 0; index < layer->summed.size(); ++index)
          if (layer->summed.at(index) > 0) sums.add(AxisSet::of_index(index), layer->summed.at(index), ready);
      }
    }
    sums.finish();
    return sums;
  }
  /// A copied byte is read and written.
  double copy_seconds_per_byte() const {
    return profile_.is_of_ranks ? 0 : profile_.optimizer / trained_elements_ * 2 / options_.update_bytes();
  }
  bool shards_optimizer() const { return experiment_.train.shard == ShardedState::optimizer; }

  std::vector<StageCosts> stage_costs() const {
    const TrainConfig& train = experiment_.train;
    const std::int64_t parts = train.micro_batches * experiment_.mesh.dp;
    const double share = profile_.is_of_ranks ? 1 : ratio(train.batch, parts * shard(train.batch, parts, 0).size);
    const double first = (train.forward_only ? 1 : plan_.copies()) / micro_batches();
    std::vector<StageCosts> stages = profile_.later;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      StageCosts& costs = stages[stage];
      for (double StageCosts::*cost :
           {&StageCosts::forward, &StageCosts::backward_input, &StageCosts::backward_weight, &StageCosts::recompute})
        costs.*cost = share * (first * profile_.first[stage].*cost + (1 - first) * costs.*cost);
      price_offload(static_cast<int>(stage), share, costs);
      add_messages(static_cast<int>(stage), costs);
      costs.loss =
          profile_.loss * ratio(experiment_.mesh.dp, head_ranks()) + speed_of_head() * loss_messages_ / seen_by_head();
    }
    return stages;
  }

  /// The head's messages take as long whatever the speed of its slowest rank, for which the others wait.
  double speed_of_head() const {
    double slowest = std::numeric_limits<double>::max();
    for (int rank = 0; rank < schedule_.size(); ++rank)
      if (head_is_everywhere() || plan_.has_stage(rank, plan_.stages() - 1)) slowest = std::min(slowest, speed(rank));
    return slowest;
  }

  /// What the ranks of a stage send each other takes as long whatever their speed.
  void add_messages(int stage, StageCosts& costs) const {
    if (!experiment_.is_virtual_time()) return;
    const double at_speed = speed(plan_.rank_of()[static_cast<std::size_t>(stage)]);
    const IndexRange range = plan_.range(stage);
    for (std::int64_t i = range.begin; i < range.end(); ++i) {
      const LayerMessages& layer = layers_[static_cast<std::size_t>(i)];
      costs.forward += at_speed * layer.forward;
      costs.recompute += at_speed * layer.forward;
      costs.backward_input += at_speed * layer.backward;
    }
    const ModelSpec& model = *plan_.model;
    for (const IndexRange& segment : plan_.has_sqrt_segments ? sqrt_segments(range) : marked_segments(model, range)) {
      double again = 0;
      bool has_backward = false;
      for (auto i = static_cast<std::size_t>(segment.begin); i < static_cast<std::size_t>(segment.end()); ++i) {
        const ModelSpec::Application& application = model.applications()[i];
        has_backward = has_backward || ModelSpec::trains_parameters(application) || model.gives_gradient(application);
        again += layers_[i].forward;
      }
      if (has_backward) costs.backward_input += at_speed * again;
    }
  }

  /// A virtual clock has links to the host; on a wall clock a rank moves its activations itself, between its actions.
  void price_offload(int stage, double share, StageCosts& costs) const {
    const double bytes = share * static_cast<double>(profile_.offloaded_bytes[static_cast<std::size_t>(stage)]);
    const double measured = share * costs.offload;
    costs.offload = 0;
    if (bytes == 0) return;
    if (experiment_.is_virtual_time()) {
      costs.offload = host_transfer_seconds(experiment_.links, std::llround(bytes));
      return;
    }
    std::int64_t moved = 0;
    for (const std::vector<Action>& list : schedule_.ranks)
      moved += std::count_if(list.begin(), list.end(), [stage](const Action& action) {
        return action.kind == ActionKind::offload && action.stage == stage;
      });
    const double of_micro_batch = measured * static_cast<double>(moved) / micro_batches();
    costs.forward += of_micro_batch;
    costs.backward_input += of_micro_batch;
  }

  /// Copies of a sharded head add up their tiles' gradients each time that these are computed.
  double sum_seconds() const {
    const bool is_summed_twice = experiment_.train.clip.needs_norm_of_heads() && !heads_are_replicated();
    return weight_messages_ / (is_summed_twice ? 2 : 1);
  }

  /// A rank's part of a step in seconds, from those of one micro-batch and all classes.
  double head_seconds(double of_micro_batch, int rank) const {
    if (!trains_head(rank)) return 0;
    return of_micro_batch * seen_by_head() * ratio(experiment_.mesh.dp, head_ranks()) / speed(rank);
  }
  double head_weight_seconds(int rank) const {
    return head_seconds(profile_.head_weight, rank) + (trains_head(rank) ? sum_seconds() : 0);
  }

  /// The seconds between the overflow check and the updates, where gradients are clipped by their global norm.
  double norm_seconds() const {
    if (experiment_.train.forward_only || experiment_.train.clip.norm == 0) return 0;
    double slowest = 0;
    if (experiment_.train.clip.needs_norm_of_heads()) {
      for (int rank = 0; rank < schedule_.size(); ++rank)
        slowest = std::max(slowest, head_seconds(profile_.head_norm, rank));
      if (!heads_are_replicated()) slowest += sum_seconds();
    }
    if (!experiment_.is_virtual_time()) return slowest;
    return slowest +
           collective_seconds(experiment_.links, Operation::all_reduce,
                              squares_of(experiment_, *plan_.model) * static_cast<std::int64_t>(sizeof(double)),
                              mesh_.ranks_over(every_axis, 0));
  }

  /// The rank's part of the parameters takes its part of the time.
  double update_seconds(int rank) const {
    if (experiment_.train.forward_only) return 0;
    return profile_.optimizer * stepped_elements(experiment_, plan_, layers_, rank) / trained_elements_ / speed(rank);
  }

  /// The second of two copies is counted with the links of the first, whose mirror image it is.
  std::function<TransferCosts(int, int)> transfers() const {
    if (!experiment_.is_virtual_time()) return {};
    std::vector<CrossingBytes> out_of;  // each stage but the last
    for (int stage = 0; stage + 1 < plan_.stages(); ++stage)
      out_of.push_back(crossing_bytes(*plan_.model, *plan_.placement, *plan_.forms,
                                      static_cast<int>(plan_.range(stage).end()), options_.samples,
                                      experiment_.precision().activations, !experiment_.train.forward_only));
    return [this, out_of = std::move(out_of)](int from, int to) {
      const Link& link = experiment_.links.link(world_rank(plan_.rank_of()[static_cast<std::size_t>(from)]),
                                                world_rank(plan_.rank_of()[static_cast<std::size_t>(to)]));
      const CrossingBytes& bytes = out_of[static_cast<std::size_t>(std::min(from, to))];
      return TransferCosts{
          .latency = link.latency,
          .occupancy = static_cast<double>(from < to ? bytes.forward : bytes.backward) / link.bandwidth};
    };
  }

  /// The overflow check: all ranks agree whether the step is taken.
  double check_seconds() const {
    if (!experiment_.is_virtual_time()) return 0;
    const std::vector<int> ranks = mesh_.ranks_over({Axis::pp}, 0);
    const bool sends_loss = !experiment_.train.forward_only && !head_is_everywhere();
    const Operation of_loss = plan_.copies() > 1 ? Operation::all_reduce : Operation::broadcast;
    constexpr std::int64_t number = sizeof(double);
    const double overflow = experiment_.has_loss_scale() ? collective_seconds(experiment_.links, Operation::all_reduce,
                                                                              number, mesh_.ranks_over(every_axis, 0))
                                                         : 0;
    const std::int64_t losses = sends_loss ? static_cast<std::int64_t>(experiment_.heads()) * number : 0;
    return overflow + collective_seconds(experiment_.links, sends_loss ? of_loss : Operation::barrier, losses, ranks);
  }

  const Experiment& experiment_;
  const RunPlan& plan_;
  const StageProfile& profile_;
  const std::span<const LayerMessages> layers_;
  const Mesh mesh_;
  const PlannerOptions options_;
  const Schedule& schedule_;
  const double trained_elements_;
  std::vector<double> speeds_;  // of the ranks of the pipeline
  // The seconds of the head's messages in a step: of those that come with the loss, and of those with the weights.
  double loss_messages_ = 0;
  double weight_messages_ = 0;
  LossMessages loss_parts_;  // the messages of a loss in parts
};

}  // namespace

PredictedStep predicted_step(const Experiment& experiment, const RunPlan& plan, const StageProfile& profile,
                             std::span<const LayerMessages> layers) {
  return Prediction(experiment, plan, profile, layers).step();
}

StepSeconds predicted_seconds(const Experiment& experiment, const RunPlan& plan, std::span<const StageProfile> steps) {
  const std::vector<LayerMessages> layers = layer_messages(experiment, plan);
  std::vector<double> seconds;
  for (const StageProfile& step : steps) seconds.push_back(predicted_step(experiment, plan, step, layers).seconds);
  return step_seconds(seconds);
}

namespace {

/// The loss takes no time here, but where all ranks share it they would wait for each other.
Schedule without_loss(Schedule schedule) {
  for (std::vector<Action>& list : schedule.ranks)
    std::erase_if(list, [](const Action& action) { return is_loss(action.kind); });
  return schedule;
}

}  // namespace

double ideal_speedup(Schedule schedule, Recompute recompute) {
  schedule = without_loss(std::move(schedule));
  const ScheduleShape shape{.ranks = schedule.size()};
  const double naive_seconds =
      is_forward_only(schedule) ? shape.ranks : simulate(with_recompute(naive(shape), recompute), {}).step_time;
  // A rank with several stages has as much work as a rank with one.
  const double chunks = static_cast<double>(schedule.stages()) / static_cast<double>(schedule.size());
  return naive_seconds * schedule.micro_batches * chunks / simulate(schedule, {}).step_time;
}

KeptMicroBatches kept_micro_batches(Schedule schedule) {
  schedule = without_loss(std::move(schedule));
  const bool recomputes = std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [](const auto& list) {
    return std::any_of(list.begin(), list.end(), [](const Action& a) { return a.kind == ActionKind::recompute; });
  });
  KeptMicroBatches kept{
      .values =
          simulate(schedule, {.stages = costs_per_stage({.weight_inputs = 0}, schedule.rank_of)}).peak_activations,
      .inputs = std::vector<double>(schedule.ranks.size())};
  if (recomputes)
    kept.inputs =
        simulate(schedule,
                 {.stages = costs_per_stage({.activations = 0, .weight_inputs = 0, .input = 1}, schedule.rank_of)})
            .peak_memory;
  return kept;
}

}  // namespace heddle
