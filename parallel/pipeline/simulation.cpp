#include "parallel/pipeline/simulation.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/validation.h"

namespace heddle {

namespace {

constexpr double not_yet = std::numeric_limits<double>::infinity();
constexpr const char* input_name = "schedule";

/// What a rank keeps for the backward, and its peaks.
class Held {
 public:
  /// Notes an O or L, which begins no earlier than the one before it has ended.
  void add_moves(const TimedAction& timed, double activations) {
    if (timed.action.kind == ActionKind::offload) {
      moves_.push_back({timed.begin, 0, activations});
      moves_.push_back({timed.end, -activations, 0});
    } else {
      moves_.push_back({timed.begin, activations, 0});
      moves_.push_back({timed.end, 0, -activations});
    }
  }
  /// Carries out what O and L have moved before a time, or until it.
  void move_before(double time) {
    while (!moves_.empty() && moves_.front().time < time) move();
  }
  void move_until(double time) {
    while (!moves_.empty() && moves_.front().time <= time) move();
  }

  void begin(const Action& action, const StageCosts& costs, bool recomputed) {
    if (action.kind == ActionKind::forward && recomputed) add(0, 0, costs.input);
    if (action.kind == ActionKind::forward && !recomputed) add(costs.activations, 0, 0);
    if (action.kind == ActionKind::recompute) add(costs.activations, 0, -costs.input);
  }
  void end(const Action& action, const StageCosts& costs) {
    if (action.kind == ActionKind::backward) add(-costs.activations, 0, 0);
    if (action.kind == ActionKind::backward_input) add(-costs.activations, costs.weight_inputs, 0);
    if (action.kind == ActionKind::backward_weight) add(0, -costs.weight_inputs, 0);
  }

  double max_activations = 0;
  double max_weight_inputs = 0;
  double max_offloaded = 0;
  double max_total = 0;

 private:
  struct Move {
    double time;
    double activations;
    double offloaded;
  };

  void move() {
    add(moves_.front().activations, 0, 0);
    offloaded_ += moves_.front().offloaded;
    max_offloaded = std::max(max_offloaded, offloaded_);
    moves_.pop_front();
  }

  void add(double activations, double weight_inputs, double inputs) {
    activations_ += activations;
    weight_inputs_ += weight_inputs;
    inputs_ += inputs;
    max_activations = std::max(max_activations, activations_);
    max_weight_inputs = std::max(max_weight_inputs, weight_inputs_);
    max_total = std::max(max_total, activations_ + weight_inputs_ + inputs_);
  }

  double activations_ = 0;
  double weight_inputs_ = 0;
  double inputs_ = 0;
  double offloaded_ = 0;
  std::deque<Move> moves_;  // in order of time
};

/// Visits a schedule's actions in an order in which they can be executed, and keeps the times.
class Simulator {
 public:
  Simulator(const Schedule& schedule, const SimulationCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        added_(additions(schedule)),
        input_arrival_(schedule),
        gradient_arrival_(schedule),
        is_recomputed_(schedule),
        loss_begin_(at_index(schedule.micro_batches), not_yet),
        outputs_arrival_(added_.loss_in_parts ? loss_begin_.size() : 0),
        sums_arrival_(outputs_arrival_.size()),
        free_(schedule.ranks.size()),
        held_(schedule.ranks.size()) {
    check_costs();
    timeline_.ranks.resize(schedule.ranks.size());
    number_links();
    for (int rank = 0; rank < schedule.size(); ++rank) scan_list(rank);
  }

  Simulation run() {
    const Walk walked = walk(schedule_, [this](int rank, int first, int end) { execute(rank, first, end); });
    check_walk(schedule_, walked, input_name);
    return result();
  }

 private:
  int last_stage() const { return schedule_.stages() - 1; }
  /// Whether there is an H of several ranks.
  bool loss_is_collective() const { return added_.loss_rank_count > 1 && !added_.loss_in_parts; }
  const StageCosts& costs_of(int stage) const { return costs_.stages[costs_.stages.size() == 1 ? 0 : at_index(stage)]; }
  double speed(int rank) const { return at_index(rank) < costs_.speed.size() ? costs_.speed[at_index(rank)] : 1; }

  void check_costs() const {
    if (costs_.stages.size() != 1 && costs_.stages.size() != at_index(schedule_.stages()))
      fail<InputError>("costs: expected those of 1 or of {} stages, got {}", schedule_.stages(), costs_.stages.size());
    if (costs_.speed.size() > schedule_.ranks.size())
      fail<InputError>("costs: expected at most {} speeds, one for each rank, got {}", schedule_.size(),
                       costs_.speed.size());
  }

  void number_links() {
    std::map<std::pair<int, int>, std::size_t> numbers;
    for (int copy = 0; copy < schedule_.copies(); ++copy) {
      const std::vector<int>& rank_of = schedule_.ranks_of_copy(copy);
      const auto number = [&](int from_stage, int to_stage) {
        const bool is_stage = to_stage >= 0 && to_stage < schedule_.stages();
        const std::pair link(rank_of[at_index(from_stage)], rank_of[at_index(is_stage ? to_stage : from_stage)]);
        return numbers.emplace(link, numbers.size()).first->second;
      };
      for (int stage = 0; stage < schedule_.stages(); ++stage) {
        links_up_.push_back(number(stage, stage + 1));
        links_down_.push_back(number(stage, stage - 1));
      }
    }
    link_free_.resize(numbers.size());
  }

  void scan_list(int rank) {
    const std::vector<Action>& list = schedule_.ranks[at_index(rank)];
    timeline_.ranks[at_index(rank)].reserve(list.size());
    bool has_loss = false;
    for (const Action& action : list) {
      has_loss = has_loss || action.kind == ActionKind::loss;
      if (action.kind == ActionKind::recompute) is_recomputed_(action) = true;
      if (is_offload_or_load(action.kind)) prepare_host_links();
    }
    if (!has_loss || !loss_is_collective()) return;
    loss_ranks_.push_back(rank);
    slowest_at_loss_ = std::min(slowest_at_loss_, speed(rank));
  }

  void prepare_host_links() {
    if (!loaded_.empty()) return;
    loaded_ = PerCell<double>(schedule_);
    host_link_free_.resize(free_.size());
    timeline_.host_links.resize(free_.size());
  }

  /// Executes the actions [first, end) of a rank's list, which overlap if there are several. All that they need has
  /// been computed; their results are sent after the last one, as in the communication pass.
  void execute(int rank, int first, int end) {
    const std::span<const Action> actions(schedule_.ranks[at_index(rank)].data() + first, at_index(end - first));
    if (is_message(actions.front().kind)) return pass_message(rank, actions.front());
    if (is_offload_or_load(actions.front().kind)) return offload_or_load(rank, actions.front());
    if (costs_.overlap > 0) {
      compute_together(rank, actions);
    } else {
      for (const Action& action : actions) compute_together(rank, {&action, 1});
    }
    for (const Action& action : actions) deliver(rank, action, free_[at_index(rank)]);
  }

  /// Puts an O or L on the rank's link to the host, which carries it when it is free; the rank goes on.
  void offload_or_load(int rank, const Action& action) {
    const StageCosts& costs = costs_of(action.stage);
    const double begin = std::max(free_[at_index(rank)], host_link_free_[at_index(rank)]);
    const double end = begin + costs.offload;
    host_link_free_[at_index(rank)] = end;
    if (action.kind == ActionKind::load) loaded_(action) = end;
    timeline_.host_links[at_index(rank)].push_back({action, begin, end});
    held_[at_index(rank)].add_moves(timeline_.host_links[at_index(rank)].back(), costs.activations);
  }

  void compute_together(int rank, std::span<const Action> actions) {
    double begin = free_[at_index(rank)];
    for (const Action& action : actions) begin = std::max(begin, arrival_of(action));
    double sum = 0;
    double longest = 0;
    for (const Action& action : actions) {
      const double seconds = duration(action, rank);
      sum += seconds;
      longest = std::max(longest, seconds);
    }
    const double end = begin + longest + (1 - costs_.overlap) * (sum - longest);
    free_[at_index(rank)] = end;
    held_[at_index(rank)].move_until(begin);
    for (const Action& action : actions) {
      timeline_.ranks[at_index(rank)].push_back({action, begin, end});
      held_[at_index(rank)].begin(action, costs_of(action.stage), is_recomputed_(action));
    }
    held_[at_index(rank)].move_before(end);
    for (const Action& action : actions) held_[at_index(rank)].end(action, costs_of(action.stage));
  }

  /// The time at which all inputs of an action have arrived at its rank.
  double arrival_of(const Action& action) {
    if (action.kind == ActionKind::forward) return input_arrival_(action);
    if (is_backward(action.kind) && loaded_.empty()) return gradient_arrival_(action);
    if (is_backward(action.kind)) return std::max(gradient_arrival_(action), loaded_(action));
    if (action.kind == ActionKind::loss) return loss_begin(action);
    if (action.kind == ActionKind::loss_sums) return outputs_arrival_[at_index(action.micro_batch)];
    if (action.kind == ActionKind::loss_gradient) return sums_arrival_[at_index(action.micro_batch)];
    return 0;
  }

  /// A loss of several ranks begins when the last of them has arrived; at the first visit, all of them have. That of
  /// one rank waits for nothing else.
  double loss_begin(const Action& action) {
    double& begin = loss_begin_[at_index(action.micro_batch)];
    if (begin == not_yet) {
      begin = 0;
      for (const int rank : loss_ranks_) begin = std::max(begin, free_[at_index(rank)]);
    }
    return begin;
  }

  double duration(const Action& action, int rank) const {
    const StageCosts& costs = costs_of(action.stage);
    switch (action.kind) {
      case ActionKind::forward:
        return costs.forward / speed(rank);
      case ActionKind::backward:
        return (costs.backward_input + costs.backward_weight) / speed(rank);
      case ActionKind::backward_input:
        return costs.backward_input / speed(rank);
      case ActionKind::backward_weight:
        return costs.backward_weight / speed(rank);
      case ActionKind::recompute:
        return costs.recompute / speed(rank);
      case ActionKind::loss:
        return costs.loss / (loss_is_collective() ? slowest_at_loss_ : speed(rank));
      case ActionKind::loss_sums:
        return costs.loss / speed(rank);
      default:
        return 0;
    }
  }

  /// Passes the result of an action to the actions that wait for it, on other ranks or on this one. Lists with
  /// communication have separate actions for sends.
  void deliver(int rank, const Action& action, double end) {
    const int s = action.stage;
    if (action.kind == ActionKind::forward && s < last_stage()) deliver(s, s + 1, action.micro_batch, end);
    if (is_backward(action.kind) && s > 0) deliver(s, s - 1, action.micro_batch, end);
    if (is_part_of_loss(action.kind)) {
      deliver_loss(rank, action, end);
    } else if (s == last_stage() &&
               action.kind == (added_.loss_rank_count > 0 ? ActionKind::loss : ActionKind::forward)) {
      gradient_arrival_(action) = end;
    }
  }

  /// The part of one rank; messages follow the J of the rank that has the output, and the S and T of the last rank.
  void deliver_loss(int rank, const Action& action, double end) {
    const auto arrive = [end](double& arrival, double message) { arrival = std::max(arrival, end + message); };
    const auto& [outputs, sums, gradient] = costs_.loss_messages;
    const bool has_output = schedule_.rank_at(action.stage, action.micro_batch) == rank;
    if (action.kind == ActionKind::loss_broadcast && has_output)
      arrive(outputs_arrival_[at_index(action.micro_batch)], outputs);
    if (action.kind == ActionKind::loss_sums) arrive(sums_arrival_[at_index(action.micro_batch)], sums);
    if (action.kind == added_.end_of_loss) arrive(gradient_arrival_(action), gradient);
  }

  void deliver(int from_stage, int to_stage, int micro_batch, double end) {
    if (schedule_.rank_at(from_stage, micro_batch) == schedule_.rank_at(to_stage, micro_batch)) {
      arrival(from_stage, to_stage, micro_batch) = end;
    } else if (!added_.messages) {
      send(from_stage, to_stage, micro_batch, end);
    }
  }

  void pass_message(int rank, const Action& action) {
    if (!is_send(action.kind)) return;  // waited for where it is used
    const int to_stage = action.kind == ActionKind::send_forward ? action.stage + 1 : action.stage - 1;
    send(action.stage, to_stage, action.micro_batch, free_[at_index(rank)]);
  }

  void send(int from_stage, int to_stage, int micro_batch, double posted) {
    const TransferCosts transfer = costs_.transfer ? costs_.transfer(from_stage, to_stage) : TransferCosts{};
    const std::vector<std::size_t>& links = from_stage < to_stage ? links_up_ : links_down_;
    double& link_free = link_free_[links[schedule_.stage_index(from_stage, micro_batch)]];
    link_free = std::max(link_free, posted) + transfer.occupancy;
    arrival(from_stage, to_stage, micro_batch) = link_free + transfer.latency;
  }

  double& arrival(int from_stage, int to_stage, int micro_batch) {
    return (from_stage < to_stage ? input_arrival_ : gradient_arrival_)(to_stage, micro_batch);
  }

  double optimizer_seconds(int rank) const {
    double sum = 0;
    for (int stage = 0; stage < schedule_.stages(); ++stage)
      if (schedule_.has_stage(rank, stage)) sum += costs_of(stage).optimizer / speed(rank);
    return sum;
  }

  Simulation result() {
    Simulation simulation;
    double last = 0;
    for (const double free : free_) last = std::max(last, free);
    double begin = not_yet;
    double end = 0;
    for (int rank = 0; rank < schedule_.size(); ++rank) {
      Held& held = held_[at_index(rank)];
      held.move_until(not_yet);
      simulation.peak_activations.push_back(held.max_activations);
      simulation.peak_weight_inputs.push_back(held.max_weight_inputs);
      simulation.peak_memory.push_back(held.max_total);
      simulation.peak_offloaded.push_back(held.max_offloaded);
      const std::vector<TimedAction>& timed = timeline_.ranks[at_index(rank)];
      if (!timed.empty()) begin = std::min(begin, timed.front().begin);
      end = std::max(end, (costs_.barrier_before_optimizer ? last : free_[at_index(rank)]) + optimizer_seconds(rank));
    }
    simulation.step_time = std::max(0.0, end - begin);
    simulation.timeline = std::move(timeline_);
    return simulation;
  }

  const Schedule& schedule_;
  const SimulationCosts& costs_;
  const Additions added_;
  std::vector<int> loss_ranks_;  // of a collective loss
  double slowest_at_loss_ = not_yet;
  PerCell<double> input_arrival_;     // when the input arrives
  PerCell<double> gradient_arrival_;  // the same for the gradient of the output
  PerCell<bool> is_recomputed_;
  std::vector<double> loss_begin_;       // per micro-batch
  std::vector<double> outputs_arrival_;  // per micro-batch, of a loss in parts: when all ranks have the outputs,
  std::vector<double> sums_arrival_;     // and the sums over all classes
  std::vector<double> free_;             // per rank: the end of its last action
  std::vector<std::size_t> links_up_;    // per copy and stage: the link to the next stage's rank, in link_free_
  std::vector<std::size_t> links_down_;  // the same to the rank of the stage before
  std::vector<double> link_free_;        // for each ordered pair of ranks between which there are messages
  PerCell<double> loaded_;               // the end of L; empty if there are none
  std::vector<double> host_link_free_;   // per rank
  std::vector<Held> held_;
  Timeline timeline_;
};

}  // namespace

std::vector<StageCosts> costs_per_stage(const StageCosts& of_rank, std::span<const int> rank_of) {
  std::map<int, int> stages;  // the number of each rank's stages
  for (const int r : rank_of) ++stages[r];
  std::vector<StageCosts> costs;
  for (const int r : rank_of) {
    StageCosts& stage = costs.emplace_back(of_rank);
    for (double StageCosts::*shared :
         {&StageCosts::forward, &StageCosts::backward_input, &StageCosts::backward_weight, &StageCosts::recompute,
          &StageCosts::optimizer, &StageCosts::offload, &StageCosts::activations, &StageCosts::weight_inputs})
      stage.*shared /= stages[r];
  }
  return costs;
}

Simulation simulate(const Schedule& schedule, const SimulationCosts& costs) {
  check_lists(schedule, input_name);
  return Simulator(schedule, costs).run();
}

}  // namespace heddle
