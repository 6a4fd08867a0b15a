#include "parallel/pipeline/program.h"

#include <algorithm>
#include <utility>

#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {

namespace {

/// Whether an action counts where sends are waited for. The parts of a loss take no time here.
bool counts_for_waits(ActionKind kind) {
  return !is_message(kind) && !is_offload_or_load(kind) && !is_part_of_loss(kind);
}

/// When each rank's computing actions begin if F, I, W and R take one unit, B two and H none.
class UnitBegins {
 public:
  explicit UnitBegins(const Schedule& schedule) : begins_(schedule.ranks.size()) {
    const Simulation simulation = simulate(schedule, {});
    for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
      for (const TimedAction& timed : simulation.timeline.ranks[r]) {
        const ActionKind kind = timed.action.kind;
        if (counts_for_waits(kind)) begins_[r].push_back(timed.begin);
        if (kind == ActionKind::forward) forward_[{timed.action.stage, timed.action.micro_batch}] = timed.begin;
        if (kind == ActionKind::backward || kind == ActionKind::backward_input)
          backward_[{timed.action.stage, timed.action.micro_batch}] = timed.begin;
      }
    }
  }

  /// The time at which the receiver begins the action that needs the message.
  double used(const Action& send) const {
    return send.kind == ActionKind::send_forward ? forward_.at({send.stage + 1, send.micro_batch})
                                                 : backward_.at({send.stage - 1, send.micro_batch});
  }
  /// The index of the rank's computing action that may wait for an event at `time`: `slack` after the first one that
  /// begins then or later. It begins later itself, so that there is no cycle of waits.
  std::size_t waits_at(std::size_t rank, double time, std::size_t slack) const {
    const auto& begins = begins_[rank];
    const auto number = [&](auto place) { return static_cast<std::size_t>(place - begins.begin()); };
    return std::max(number(std::lower_bound(begins.begin(), begins.end(), time)) + slack,
                    number(std::upper_bound(begins.begin(), begins.end(), time)));
  }

 private:
  std::vector<std::vector<double>> begins_;
  std::map<std::pair<int, int>, double> forward_;
  std::map<std::pair<int, int>, double> backward_;
};

/// The number of computing actions between the use of a message and the wait for its send, so that the sender's next
/// micro-batch is not delayed.
constexpr std::size_t slack = 1;

std::map<std::size_t, std::vector<Action>> waits_of(const Schedule& schedule, std::size_t rank,
                                                    const UnitBegins& times) {
  const std::vector<Action>& actions = schedule.ranks[rank];
  std::vector<std::size_t> computing;
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (counts_for_waits(actions[i].kind)) computing.push_back(i);
  std::map<std::size_t, std::vector<Action>> waits;
  for (const Action& action : actions) {
    if (!is_send(action.kind)) continue;
    const std::size_t at = times.waits_at(rank, times.used(action), slack);
    if (at < computing.size()) waits[computing[at]].push_back(action);
  }
  return waits;
}

}  // namespace

std::shared_ptr<const PipelineProgram> make_program(Schedule schedule) {
  auto program = std::make_shared<PipelineProgram>();
  const UnitBegins times(schedule);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    program->waits.push_back(waits_of(schedule, rank, times));
  program->schedule = std::move(schedule);
  return program;
}

Schedule forward_only(const std::vector<int>& rank_of, int micro_batches) {
  Schedule schedule = empty_schedule(micro_batches, rank_of);
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (int i = 0; i < micro_batches; ++i)
      schedule.ranks[at_index(rank_of[at_index(stage)])].push_back({ActionKind::forward, stage, i});
  return with_communication(std::move(schedule));
}

}  // namespace heddle
