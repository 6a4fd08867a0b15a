#include "parallel/pipeline/search/list_scheduler.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace heddle {

namespace {

class ListScheduler {
 public:
  ListScheduler(const SchedulingProblem& problem, const ListRules& rules)
      : problem_(problem),
        rules_(rules),
        stages_(problem.rank_of.size(), Stage(problem.micro_batches)),
        ranks_(problem.stages_of.size()),
        schedule_{.micro_batches = problem.micro_batches,
                  .rank_of = problem.rank_of,
                  .ranks = std::vector<std::vector<Action>>(ranks_.size())} {
    std::fill(stages_[0].input_arrival.begin(), stages_[0].input_arrival.end(), 0.0);
    for (int rank = 0; rank < problem.ranks(); ++rank) choices_.push_back(choose(rank));
  }

  std::optional<Schedule> run() {
    for (std::size_t left = 3 * stages_.size() * at_index(problem_.micro_batches); left > 0; --left) {
      const Choice first = *std::min_element(choices_.begin(), choices_.end(),
                                             [](const Choice& a, const Choice& b) { return a.begin < b.begin; });
      if (first.begin == infinity) return std::nullopt;
      execute(first);
    }
    return std::move(schedule_);
  }

 private:
  struct Stage {
    explicit Stage(int micro_batches)
        : input_arrival(at_index(micro_batches), infinity), gradient_arrival(at_index(micro_batches), infinity) {}
    std::vector<double> input_arrival;
    std::vector<double> gradient_arrival;
    // The next micro-batch of each kind of action.
    int forward = 0;
    int backward_input = 0;
    int backward_weight = 0;
  };

  struct Rank {
    double free = 0;
    double held = 0;
    bool last_was_forward = false;
  };

  struct Choice {
    ActionKind kind = ActionKind::forward;
    int stage = 0;
    double begin = infinity;
  };

  const StageCosts& costs_of(int stage) const { return problem_.costs[at_index(stage)]; }
  int rank_with(int stage) const { return problem_.rank_of[at_index(stage)]; }
  int last_stage() const { return problem_.stages() - 1; }

  /// What the rank does next, and when. No choice of another rank that begins earlier can change it.
  Choice choose(int rank) const {
    const Choice forward = earliest(rank, ActionKind::forward);
    const Choice backward = earliest(rank, ActionKind::backward_input);
    const Choice weight = next_weight(rank);
    const double soonest = std::min(forward.begin, backward.begin);
    if (weight.begin < soonest && soonest - weight.begin >= rules_.patience * costs_of(weight.stage).backward_weight)
      return weight;
    if (rules_.alternates && !ranks_[at_index(rank)].last_was_forward && forward.begin <= backward.begin)
      return forward;
    return backward.begin <= forward.begin ? backward : forward;
  }

  /// The stage of a rank that can begin first; of equal ones the last stage, which frees memory soonest.
  Choice earliest(int rank, ActionKind kind) const {
    Choice best;
    for (const int stage : problem_.stages_of[at_index(rank)]) {
      const double begin = std::max(ranks_[at_index(rank)].free, kind == ActionKind::forward
                                                                     ? forward_arrival(rank, stage)
                                                                     : gradient_arrival(stages_[at_index(stage)]));
      if (begin <= best.begin) best = {kind, stage, begin};
    }
    return best;
  }

  double forward_arrival(int rank, int stage) const {
    const Stage& s = stages_[at_index(stage)];
    if (s.forward == problem_.micro_batches) return infinity;
    // The first stage decides how many micro-batches are in flight; a rank leaves room for one micro-batch in its later
    // stages.
    if (stage == 0 && s.forward - s.backward_input >= rules_.max_in_flight) return infinity;
    double room = 0;
    for (const int other : problem_.stages_of[at_index(rank)])
      if (other >= stage) room += costs_of(other).activations;
    if (ranks_[at_index(rank)].held + room > problem_.max_held()) return infinity;
    return s.input_arrival[at_index(s.forward)];
  }

  double gradient_arrival(const Stage& stage) const {
    return stage.backward_input == problem_.micro_batches ? infinity
                                                          : stage.gradient_arrival[at_index(stage.backward_input)];
  }

  /// The W of the stage whose weight part has waited longest.
  Choice next_weight(int rank) const {
    Choice best;
    int oldest = problem_.micro_batches;
    for (const int stage : problem_.stages_of[at_index(rank)]) {
      const Stage& s = stages_[at_index(stage)];
      if (s.backward_weight == s.backward_input || s.backward_weight >= oldest) continue;
      oldest = s.backward_weight;
      best = {ActionKind::backward_weight, stage, ranks_[at_index(rank)].free};
    }
    return best;
  }

  void execute(const Choice& choice) {
    const StageCosts& costs = costs_of(choice.stage);
    Stage& stage = stages_[at_index(choice.stage)];
    const int index = rank_with(choice.stage);
    Rank& rank = ranks_[at_index(index)];
    int micro_batch = 0;
    if (choice.kind == ActionKind::forward) {
      micro_batch = stage.forward++;
      rank.free = choice.begin + costs.forward;
      rank.held += costs.activations;
    } else if (choice.kind == ActionKind::backward_input) {
      micro_batch = stage.backward_input++;
      rank.free = choice.begin + costs.backward_input;
      rank.held += costs.weight_inputs - costs.activations;
    } else {
      micro_batch = stage.backward_weight++;
      rank.free = choice.begin + costs.backward_weight;
      rank.held -= costs.weight_inputs;
    }
    if (choice.kind != ActionKind::backward_weight) {
      rank.last_was_forward = choice.kind == ActionKind::forward;
      deliver(choice, micro_batch, rank.free);
    }
    schedule_.ranks[at_index(index)].push_back({choice.kind, choice.stage, micro_batch});
    choices_[at_index(index)] = choose(index);
  }

  void deliver(const Choice& choice, int micro_batch, double end) {
    const bool is_forward = choice.kind == ActionKind::forward;
    if (is_forward && choice.stage == last_stage()) {
      stages_[at_index(choice.stage)].gradient_arrival[at_index(micro_batch)] = end;
    } else if (const int to = is_forward ? choice.stage + 1 : choice.stage - 1; to >= 0) {
      std::vector<double>& arrivals =
          is_forward ? stages_[at_index(to)].input_arrival : stages_[at_index(to)].gradient_arrival;
      arrivals[at_index(micro_batch)] =
          end +
          (rank_with(to) == rank_with(choice.stage) ? 0 : problem_.transfer.occupancy + problem_.transfer.latency);
      choices_[at_index(rank_with(to))] = choose(rank_with(to));
    }
  }

  const SchedulingProblem& problem_;
  const ListRules& rules_;
  std::vector<Stage> stages_;
  std::vector<Rank> ranks_;
  std::vector<Choice> choices_;  // one per rank
  Schedule schedule_;
};

}  // namespace

std::optional<Schedule> list_schedule(const SchedulingProblem& problem, const ListRules& rules) {
  return ListScheduler(problem, rules).run();
}

}  // namespace heddle
