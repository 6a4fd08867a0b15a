#include "experiments/training/prediction/prediction.h"

#include <algorithm>
#include <cmath>

#include "experiments/training/layout/model_layout.h"
#include "experiments/training/layout/planned_head.h"
#include "experiments/training/layout/step_bytes.h"
#include "experiments/training/median.h"
#include "layers/stages/stage_cut.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {

namespace {

class Prediction {
 public:
  Prediction(const Experiment& experiment, const RunPlan& plan, const StageProfile& profile)
      : experiment_(experiment),
        plan_(plan),
        profile_(profile),
        mesh_(plan.placement->mesh),
        options_(planner_options(experiment, *plan.model, mesh_)),
        schedule_((experiment.train.forward_only ? plan.forward : plan.training)->schedule) {}

  double seconds() const {
    const Simulation simulation =
        simulate(schedule_, {.stages = stage_costs(), .transfer = transfers(), .speed = speeds(), .overlap = 0});
    double check_begin = 0;
    double late = 0;
    for (int rank = 0; rank < schedule_.size(); ++rank) {
      const std::vector<TimedAction>& timed = simulation.timeline.ranks[static_cast<std::size_t>(rank)];
      if (timed.empty()) continue;
      // A replicated head's gradient is summed before the overflow check, the other heads step their weights after it.
      const bool is_replicated = heads_are_replicated();
      check_begin = std::max({check_begin, timed.back().end + (is_replicated ? head_weight_seconds(rank) : 0),
                              end_of_copies_sum(rank, timed)});
      // Ranks whose turn comes later have updated their weights by then.
      const double updates = update_seconds(rank) + (is_replicated ? 0 : head_weight_seconds(rank));
      late = std::max(late, updates - timed.front().begin);
    }
    return check_begin + check_seconds() + norm_seconds() + late;
  }

 private:
  static double ratio(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }
  double micro_batches() const { return static_cast<double>(experiment_.train.micro_batches); }
  /// Whether all heads are. Where only some are, their part is counted with the others'.
  bool heads_are_replicated() const {
    bool are_replicated = true;
    for (std::size_t i = 0; i < experiment_.heads(); ++i)
      are_replicated = are_replicated && experiment_.head_of(i).is_replicated();
    return are_replicated;
  }
  bool head_is_everywhere() const { return experiment_.head.is_everywhere(); }
  bool trains_head(int rank) const {
    return !experiment_.train.forward_only && (head_is_everywhere() || plan_.has_stage(rank, plan_.stages() - 1));
  }
  /// The ranks that share a micro-batch's work of the head.
  int head_ranks() const { return mesh_.size(experiment_.head.axes()); }
  /// The micro-batches that a rank of the head sees: those of one copy of the last stage, or all.
  double seen_by_head() const {
    return head_is_everywhere() ? micro_batches() : static_cast<double>(options_.micro_batches);
  }
  int world_rank(int rank) const { return mesh_.rank({.pp = rank}); }
  double speed(int rank) const { return experiment_.ranks.speed_of(world_rank(rank)); }
  std::vector<double> speeds() const {
    std::vector<double> all;
    for (int rank = 0; rank < schedule_.size(); ++rank) all.push_back(speed(rank));
    return all;
  }

  std::vector<StageCosts> stage_costs() const {
    const TrainConfig& train = experiment_.train;
    const std::int64_t parts = train.micro_batches * experiment_.mesh.dp;
    // The largest micro-batch was measured.
    const double share = ratio(train.batch, parts * shard(train.batch, parts, 0).size * experiment_.mesh.tp);
    const double first = plan_.copies() / micro_batches();
    std::vector<StageCosts> stages = profile_.later;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      StageCosts& costs = stages[stage];
      for (double StageCosts::*cost :
           {&StageCosts::forward, &StageCosts::backward_input, &StageCosts::backward_weight, &StageCosts::recompute})
        costs.*cost = share * (first * profile_.first[stage].*cost + (1 - first) * costs.*cost);
      price_offload(static_cast<int>(stage), share, costs);
      costs.loss =
          profile_.loss * ratio(experiment_.mesh.dp, head_ranks()) + head_message_seconds(true) / seen_by_head();
    }
    return stages;
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

  /// The seconds of the head's messages in a step: of those that come with the loss, or of those with the weights.
  double head_message_seconds(bool with_loss) const {
    if (!experiment_.is_virtual_time() || head_ranks() * plan_.copies() == 1) return 0;
    double seconds = 0;
    for (const LayerCosts& head : planned_heads(experiment_, *plan_.model, options_, plan_.last_rank()))
      for (const CollectiveCost& collective : head.collectives)
        if ((collective.payload == Payload::activations) == with_loss) seconds += collective.seconds;
    return seconds;
  }
  /// Copies of a sharded head add up their tiles' gradients each time that these are computed.
  double sum_seconds() const {
    const bool is_summed_twice = experiment_.train.clip.norm > 0 && !heads_are_replicated();
    return head_message_seconds(false) / (is_summed_twice ? 2 : 1);
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
    for (int rank = 0; rank < schedule_.size() && experiment_.train.clip.head; ++rank)
      slowest = std::max(slowest, head_seconds(profile_.head_norm, rank));
    if (!heads_are_replicated()) slowest += sum_seconds();
    if (!experiment_.is_virtual_time()) return slowest;
    return slowest +
           collective_seconds(experiment_.links, Operation::all_reduce,
                              squares_of(experiment_, *plan_.model) * static_cast<std::int64_t>(sizeof(double)),
                              mesh_.ranks_over(every_axis, 0));
  }

  std::int64_t parameters_of(const IndexRange& range) const {
    std::int64_t elements = 0;
    for (std::int64_t i = range.begin; i < range.end(); ++i)
      elements += plan_.model->applications()[static_cast<std::size_t>(i)].layer->parameter_elements();
    return elements;
  }

  /// The rank's part of the parameters takes its part of the time.
  double update_seconds(int rank) const {
    if (experiment_.train.forward_only) return 0;
    // The head's weights are stepped with their gradient.
    std::int64_t head = 0;
    for (std::size_t i = 0; i < experiment_.heads(); ++i)
      if (const HeadConfig& config = experiment_.head_of(i); config.is_replicated())
        head += config.rows_of(config.classes) * embedding_size(*plan_.model) + (config.bias ? config.classes : 0);
    const std::int64_t all = parameters_of({0, static_cast<std::int64_t>(plan_.model->applications().size())}) + head;
    const std::int64_t mine = parameters_on(rank) + (trains_head(rank) ? head : 0);
    return profile_.optimizer * ratio(mine, all) / speed(rank);
  }

  /// Those of the layers.
  std::int64_t parameters_on(int rank) const {
    std::int64_t elements = 0;
    for (int stage = 0; stage < plan_.stages(); ++stage)
      if (plan_.has_stage(rank, stage)) elements += parameters_of(plan_.range(stage));
    return elements;
  }

  /// The end of the sum of the gradients over the copies of the rank's stages. Before the rank waits for its last
  /// backward, the sums of its other stages begin.
  double end_of_copies_sum(int rank, const std::vector<TimedAction>& timed) const {
    if (!experiment_.is_virtual_time() || experiment_.train.forward_only || plan_.copies() == 1) return 0;
    const TimedAction& last = timed.back();
    const std::int64_t of_last = parameters_of(plan_.range(last.action.stage));
    const double begin = timed.size() > 1 ? timed[timed.size() - 2].end : last.begin;
    const double others = begin + copies_sum_seconds(rank, parameters_on(rank) - of_last);
    return std::max(others, last.begin) + copies_sum_seconds(rank, of_last);
  }
  double copies_sum_seconds(int rank, std::int64_t elements) const {
    const auto bytes = elements * static_cast<std::int64_t>(size_of(experiment_.precision().wide()));
    return collective_seconds(experiment_.links, Operation::all_reduce, bytes,
                              mesh_.ranks_over({Axis::copies}, world_rank(rank)));
  }

  /// The second of two copies is counted with the links of the first, whose mirror image it is.
  std::function<TransferCosts(int, int)> transfers() const {
    if (!experiment_.is_virtual_time()) return {};
    const ValueForms forms(*plan_.model, *plan_.placement);
    std::vector<CrossingBytes> out_of;  // each stage but the last
    for (int stage = 0; stage + 1 < plan_.stages(); ++stage)
      out_of.push_back(crossing_bytes(*plan_.model, *plan_.placement, forms, static_cast<int>(plan_.range(stage).end()),
                                      options_.samples, experiment_.precision().activations));
    return [this, out_of = std::move(out_of)](int from, int to) {
      const Link& link = experiment_.links.link(world_rank(plan_.rank_of()[static_cast<std::size_t>(from)]),
                                                world_rank(plan_.rank_of()[static_cast<std::size_t>(to)]));
      const CrossingBytes& bytes = out_of[static_cast<std::size_t>(std::min(from, to))];
      return TransferCosts{
          .latency = link.latency,
          .occupies = static_cast<double>(from < to ? bytes.forward : bytes.backward) / link.bandwidth};
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
  const Mesh mesh_;
  const PlannerOptions options_;
  const Schedule& schedule_;
};

}  // namespace

double predicted_seconds(const Experiment& experiment, const RunPlan& plan, std::span<const StageProfile> steps) {
  std::vector<double> seconds;
  for (const StageProfile& step : steps) seconds.push_back(Prediction(experiment, plan, step).seconds());
  return median(std::move(seconds));
}

namespace {

/// The loss takes no time here, but where all ranks share it they would wait for each other.
Schedule without_loss(Schedule schedule) {
  for (std::vector<Action>& list : schedule.ranks)
    std::erase_if(list, [](const Action& action) { return action.kind == ActionKind::loss; });
  return schedule;
}

}  // namespace

double ideal_speedup(Schedule schedule, Recompute recompute) {
  schedule = without_loss(std::move(schedule));
  const ScheduleShape shape{.ranks = schedule.size()};
  const double naive_seconds =
      is_forward_only(schedule) ? shape.ranks : simulate(with_recompute(naive(shape), recompute), {}).makespan;
  // A rank with several stages has as much work as a rank with one.
  const double chunks = static_cast<double>(schedule.stages()) / static_cast<double>(schedule.size());
  return naive_seconds * schedule.micro_batches * chunks / simulate(schedule, {}).makespan;
}

KeptMicroBatches kept_micro_batches(Schedule schedule) {
  schedule = without_loss(std::move(schedule));
  const bool recomputes = std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [](const auto& list) {
    return std::any_of(list.begin(), list.end(), [](const Action& a) { return a.kind == ActionKind::recompute; });
  });
  KeptMicroBatches kept{
      .values =
          simulate(schedule, {.stages = shared_by_stages({.weight_inputs = 0}, schedule.rank_of)}).peak_activations,
      .inputs = std::vector<double>(schedule.ranks.size())};
  if (recomputes)
    kept.inputs =
        simulate(schedule,
                 {.stages = shared_by_stages({.activations = 0, .weight_inputs = 0, .input = 1}, schedule.rank_of)})
            .peak_memory;
  return kept;
}

}  // namespace heddle
