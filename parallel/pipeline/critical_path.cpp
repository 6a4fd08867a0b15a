#include "parallel/pipeline/critical_path.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"

namespace heddle {

namespace {

/// Times that differ by less than this part of the makespan are the same.
constexpr double rounding = 1e-9;

double& time_of(TimeByCost& time, CostKind kind) {
  return time.at(static_cast<std::size_t>(kind));
}

/// What actions and messages cost.
class StepTimes {
 public:
  StepTimes(const Schedule& schedule, const SimulationCosts& costs) : schedule_(schedule), costs_(costs) {
    if (costs.overlap != 0) fail<InputError>("critical path: expected no overlap of F and B, got {}", costs.overlap);
    for (const std::vector<Action>& list : schedule.ranks)
      for (const Action& action : list)
        if (action.kind != ActionKind::forward && !is_backward(action.kind) &&
            action.kind != ActionKind::backward_weight && action.kind != ActionKind::recompute)
          fail<InputError>("critical path: expected only F, B, I, W and R, got {}", to_string(action));
  }

  TransferCosts transfer(const Action& from) const {
    return costs_.transfer ? costs_.transfer(from.stage, receiver_stage(schedule_, from).value()) : TransferCosts{};
  }

  /// Adds the time of a step and its messages.
  void add(const CriticalStep& step, TimeByCost& time) const {
    add(step.rank, schedule_.ranks[at_index(step.rank)][at_index(step.index)], time);
    for (const Action& message : step.messages) time_of(time, CostKind::transfer) += transfer(message).occupancy;
    if (!step.messages.empty()) time_of(time, CostKind::transfer) += transfer(step.messages.back()).latency;
  }

  TimeByCost of_all_steps() const {
    TimeByCost time{};
    for (int rank = 0; rank < schedule_.size(); ++rank)
      for (const Action& action : schedule_.ranks[at_index(rank)]) {
        add(rank, action, time);
        if (!receiver_stage(schedule_, action)) continue;
        const auto [latency, occupancy] = transfer(action);
        time_of(time, CostKind::transfer) += latency + occupancy;
      }
    return time;
  }

 private:
  void add(int rank, const Action& action, TimeByCost& time) const {
    const StageCosts& costs = costs_.stages[costs_.stages.size() == 1 ? 0 : at_index(action.stage)];
    const double speed = at_index(rank) < costs_.speed.size() ? costs_.speed[at_index(rank)] : 1;
    const bool is_whole = action.kind == ActionKind::backward;
    if (action.kind == ActionKind::forward) time_of(time, CostKind::forward) += costs.forward / speed;
    if (is_backward(action.kind)) time_of(time, CostKind::backward_input) += costs.backward_input / speed;
    if (is_whole || action.kind == ActionKind::backward_weight)
      time_of(time, CostKind::backward_weight) += costs.backward_weight / speed;
    if (action.kind == ActionKind::recompute) time_of(time, CostKind::recompute) += costs.recompute / speed;
  }

  const Schedule& schedule_;
  const SimulationCosts& costs_;
};

/// Finds a critical path from its end to its begin.
class PathFinder {
 public:
  PathFinder(const Schedule& schedule, const SimulationCosts& costs, const Timeline& timeline)
      : schedule_(schedule),
        times_(schedule, costs),
        timeline_(timeline),
        tolerance_(rounding * timeline.makespan()),
        forward_at_(schedule),
        backward_at_(schedule) {
    for (const std::vector<Action>& list : schedule.ranks)
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i].kind == ActionKind::forward) forward_at_(list[i]) = static_cast<int>(i);
        if (is_backward(list[i].kind)) backward_at_(list[i]) = static_cast<int>(i);
      }
  }

  std::vector<CriticalStep> run() const {
    std::vector<CriticalStep> steps;
    std::optional<CriticalStep> next = last_step();
    while (next) {
      steps.push_back(*next);
      next = step_before(steps.back());
    }
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

 private:
  /// None if the schedule is empty.
  std::optional<CriticalStep> last_step() const {
    std::optional<CriticalStep> last;
    double end = 0;
    for (int rank = 0; rank < schedule_.size(); ++rank) {
      const std::vector<TimedAction>& timed = timeline_.ranks[at_index(rank)];
      if (timed.empty() || (last && timed.back().end <= end + tolerance_)) continue;
      end = timed.back().end;
      last = CriticalStep{.rank = rank, .index = static_cast<int>(timed.size()) - 1, .messages = {}};
    }
    return last;
  }

  /// Sets the messages of `step`.
  std::optional<CriticalStep> step_before(CriticalStep& step) const {
    const std::vector<TimedAction>& timed = timeline_.ranks[at_index(step.rank)];
    const double begin = timed[at_index(step.index)].begin;
    if (step.index > 0 && timed[at_index(step.index) - 1].end >= begin - tolerance_)
      return CriticalStep{.rank = step.rank, .index = step.index - 1, .messages = {}};
    const std::optional<Action> input = input_of(timed[at_index(step.index)].action);
    if (!input || schedule_.rank_at(input->stage, input->micro_batch) == step.rank) return std::nullopt;
    return follow_messages(*input, begin, step);
  }

  /// The action of another stage whose result an action needs; of a backward it is B or I.
  std::optional<Action> input_of(const Action& action) const {
    if (action.kind == ActionKind::forward && action.stage > 0)
      return Action{ActionKind::forward, action.stage - 1, action.micro_batch};
    if (is_backward(action.kind) && action.stage + 1 < schedule_.stages())
      return Action{ActionKind::backward, action.stage + 1, action.micro_batch};
    return std::nullopt;
  }

  /// From the message that arrives at `begin` back to the action after which the link began to be busy.
  CriticalStep follow_messages(const Action& input, double begin, CriticalStep& step) const {
    const int sender = schedule_.rank_at(input.stage, input.micro_batch);
    const std::vector<Action>& list = schedule_.ranks[at_index(sender)];
    int index = (input.kind == ActionKind::forward ? forward_at_ : backward_at_)(input);
    double link_begin = begin - times_.transfer(list[at_index(index)]).latency;
    for (int other = index; other >= 0; --other) {
      const Action& sent = list[at_index(other)];
      const std::optional<int> to = receiver_stage(schedule_, sent);
      if (!to || schedule_.rank_at(*to, sent.micro_batch) != step.rank) continue;
      index = other;
      step.messages.push_back(list[at_index(index)]);
      link_begin -= times_.transfer(list[at_index(index)]).occupancy;
      if (link_begin <= sent_at(sender, index) + tolerance_) break;
    }
    std::reverse(step.messages.begin(), step.messages.end());
    return {.rank = sender, .index = end_of_overlap(list, index) - 1, .messages = {}};
  }

  /// What a rank computes together is sent when all of it has ended.
  double sent_at(int rank, int index) const {
    return timeline_.ranks[at_index(rank)][at_index(end_of_overlap(schedule_.ranks[at_index(rank)], index)) - 1].end;
  }

  const Schedule& schedule_;
  StepTimes times_;
  const Timeline& timeline_;
  double tolerance_;
  // The index of F, and of B or I, in the list of the stage's rank.
  PerCell<int> forward_at_;
  PerCell<int> backward_at_;
};

TimeByCost time_of_steps(const std::vector<CriticalStep>& steps, const StepTimes& times) {
  TimeByCost time{};
  for (const CriticalStep& step : steps) times.add(step, time);
  return time;
}

SimulationCosts with_scaled(const SimulationCosts& costs, CostKind kind, double factor) {
  SimulationCosts result = costs;
  for (StageCosts& stage : result.stages) {
    if (kind == CostKind::forward) stage.forward *= factor;
    if (kind == CostKind::backward_input) stage.backward_input *= factor;
    if (kind == CostKind::backward_weight) stage.backward_weight *= factor;
    if (kind == CostKind::recompute) stage.recompute *= factor;
  }
  if (kind == CostKind::transfer && costs.transfer)
    result.transfer = [transfer = costs.transfer, factor](int from_stage, int to_stage) {
      const auto [latency, occupancy] = transfer(from_stage, to_stage);
      return TransferCosts{.latency = factor * latency, .occupancy = factor * occupancy};
    };
  return result;
}

/// The length of one path as a function of the factor of one cost.
struct Line {
  double others = 0;  // the time of the other costs
  double slope = 0;   // the time of this cost
  double operator()(double factor) const { return others + factor * slope; }
};

/// The makespan as a function of the factor of one cost: the maximum of the lines of all paths.
class MakespanByCost {
 public:
  MakespanByCost(const Schedule& schedule, const SimulationCosts& costs, CostKind kind)
      : schedule_(schedule), costs_(costs), kind_(kind) {}

  /// The line of a path that is critical at this factor: a tangent.
  Line tangent(double factor) const {
    const SimulationCosts costs = with_scaled(costs_, kind_, factor);
    const Timeline timeline = simulate(schedule_, costs).timeline;
    const std::vector<CriticalStep> steps = PathFinder(schedule_, costs, timeline).run();
    TimeByCost time = time_of_steps(steps, {schedule_, costs_});  // with the cost as it is
    const double slope = std::exchange(time_of(time, kind_), 0.0);
    return {.others = std::accumulate(time.begin(), time.end(), 0.0), .slope = slope};
  }

 private:
  const Schedule& schedule_;
  const SimulationCosts& costs_;
  CostKind kind_;
};

CostEffect effect_of(const MakespanByCost& makespan, CostKind kind, double time_on_path) {
  // Just below the cost as it is, where only the paths with the least of it are still critical.
  constexpr double slightly_less = 1 - 1e-6;
  const Line top = makespan.tangent(slightly_less);
  const Line bottom = makespan.tangent(0);
  const double tolerance = rounding * top(1);
  CostEffect effect{.kind = kind,
                    .time_on_path = time_on_path,
                    .gain = top.slope,
                    .until = 0,
                    .makespan_until = top(1),
                    .makespan_at_zero = bottom.others};
  if (top.slope <= tolerance) {
    effect.gain = 0;
    effect.until = 1;
    return effect;
  }
  Line below = bottom;
  while (below.slope < top.slope - tolerance) {
    effect.until = std::clamp((below.others - top.others) / (top.slope - below.slope), 0.0, 1.0);
    below = makespan.tangent(effect.until);
    if (below(effect.until) <= top(effect.until) + tolerance) break;
  }
  effect.makespan_until = top(effect.until);
  return effect;
}

}  // namespace

CriticalPath critical_path(const Schedule& schedule, const SimulationCosts& costs, const Timeline& timeline) {
  const StepTimes times(schedule, costs);
  CriticalPath path{.steps = PathFinder(schedule, costs, timeline).run(), .time = {}};
  path.time = time_of_steps(path.steps, times);
  return path;
}

std::vector<CostEffect> cost_effects(const Schedule& schedule, const SimulationCosts& costs) {
  TimeByCost all = StepTimes(schedule, costs).of_all_steps();
  CriticalPath path = critical_path(schedule, costs, simulate(schedule, costs).timeline);
  std::vector<CostEffect> effects;
  for (const CostKind kind : all_of<CostKind>)
    if (time_of(all, kind) > 0)
      effects.push_back(effect_of(MakespanByCost(schedule, costs, kind), kind, time_of(path.time, kind)));
  return effects;
}

}  // namespace heddle
