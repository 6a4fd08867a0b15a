#include "parallel/pipeline/search/list_scheduler.h"

#include <algorithm>
#include <utility>

namespace heddle {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

class ListScheduler {
 public:
  ListScheduler(std::vector<int> rank_of, int micro_batches, const std::vector<StageCosts>& costs,
                const TransferCosts& transfer, const ListRules& rules)
      : rules_(rules),
        costs_(costs),
        transfer_(transfer.occupancy + transfer.latency),
        stages_(rank_of.size(), Stage(micro_batches)),
        ranks_(static_cast<std::size_t>(*std::max_element(rank_of.begin(), rank_of.end())) + 1) {
    schedule_ = {.micro_batches = micro_batches, .rank_of = std::move(rank_of), .ranks = {}};
    schedule_.ranks.resize(ranks_.size());
    for (int stage = 0; stage < schedule_.stages(); ++stage) ranks_[at(rank_with(stage))].stages.push_back(stage);
    std::fill(stages_[0].input_arrival.begin(), stages_[0].input_arrival.end(), 0.0);
    for (int rank = 0; rank < schedule_.size(); ++rank) choices_.push_back(choose(rank));
  }

  std::optional<Schedule> run() {
    for (std::size_t left = 3 * stages_.size() * at(schedule_.micro_batches); left > 0; --left) {
      const Choice first = *std::min_element(choices_.begin(), choices_.end(),
                                             [](const Choice& a, const Choice& b) { return a.begin < b.begin; });
      if (first.begin == never) return std::nullopt;
      execute(first);
    }
    return std::move(schedule_);
  }

 private:
  struct Stage {
    explicit Stage(int micro_batches)
        : input_arrival(at(micro_batches), never), gradient_arrival(at(micro_batches), never) {}
    std::vector<double> input_arrival;
    std::vector<double> gradient_arrival;
    // The next micro-batch of each kind of action.
    int forward = 0;
    int backward_input = 0;
    int backward_weight = 0;
  };

  struct Rank {
    std::vector<int> stages;
    double free = 0;
    double held = 0;
    bool last_was_forward = false;
  };

  struct Choice {
    ActionKind kind = ActionKind::forward;
    int stage = 0;
    double begin = never;
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  int rank_with(int stage) const { return schedule_.rank_of[at(stage)]; }
  int last_stage() const { return schedule_.stages() - 1; }

  /// What the rank does next, and when. No choice of another rank that begins earlier can change it.
  Choice choose(int rank) const {
    const Rank& r = ranks_[at(rank)];
    const Choice forward = earliest(r, ActionKind::forward);
    const Choice backward = earliest(r, ActionKind::backward_input);
    const Choice weight = next_weight(r);
    const double soonest = std::min(forward.begin, backward.begin);
    if (weight.begin < soonest && soonest - weight.begin >= rules_.patience * costs_[at(weight.stage)].backward_weight)
      return weight;
    if (rules_.alternates && !r.last_was_forward && forward.begin <= backward.begin) return forward;
    return backward.begin <= forward.begin ? backward : forward;
  }

  /// The stage of a rank that can begin first; of equal ones the last stage, which frees memory soonest.
  Choice earliest(const Rank& rank, ActionKind kind) const {
    Choice best;
    for (const int stage : rank.stages) {
      const double begin = std::max(
          rank.free, kind == ActionKind::forward ? forward_arrival(rank, stage) : gradient_arrival(stages_[at(stage)]));
      if (begin <= best.begin) best = {kind, stage, begin};
    }
    return best;
  }

  double forward_arrival(const Rank& rank, int stage) const {
    const Stage& s = stages_[at(stage)];
    if (s.forward == schedule_.micro_batches) return never;
    // The first stage decides how many micro-batches are in flight; a rank leaves room for one micro-batch in its later
    // stages.
    if (stage == 0 && s.forward - s.backward_input >= rules_.max_in_flight) return never;
    double room = 0;
    for (const int other : rank.stages)
      if (other >= stage) room += costs_[at(other)].activations;
    if (rank.held + room > rules_.memory * (1 + 1e-9)) return never;
    return s.input_arrival[at(s.forward)];
  }

  double gradient_arrival(const Stage& stage) const {
    return stage.backward_input == schedule_.micro_batches ? never : stage.gradient_arrival[at(stage.backward_input)];
  }

  /// The W of the stage whose weight part has waited longest.
  Choice next_weight(const Rank& rank) const {
    Choice best;
    int oldest = schedule_.micro_batches;
    for (const int stage : rank.stages) {
      const Stage& s = stages_[at(stage)];
      if (s.backward_weight == s.backward_input || s.backward_weight >= oldest) continue;
      oldest = s.backward_weight;
      best = {ActionKind::backward_weight, stage, rank.free};
    }
    return best;
  }

  void execute(const Choice& choice) {
    const StageCosts& costs = costs_[at(choice.stage)];
    Stage& stage = stages_[at(choice.stage)];
    const int index = rank_with(choice.stage);
    Rank& rank = ranks_[at(index)];
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
    schedule_.ranks[at(index)].push_back({choice.kind, choice.stage, micro_batch});
    choices_[at(index)] = choose(index);
  }

  void deliver(const Choice& choice, int micro_batch, double end) {
    const bool is_forward = choice.kind == ActionKind::forward;
    if (is_forward && choice.stage == last_stage()) {
      stages_[at(choice.stage)].gradient_arrival[at(micro_batch)] = end;
    } else if (const int to = is_forward ? choice.stage + 1 : choice.stage - 1; to >= 0) {
      std::vector<double>& arrivals = is_forward ? stages_[at(to)].input_arrival : stages_[at(to)].gradient_arrival;
      arrivals[at(micro_batch)] = end + (rank_with(to) == rank_with(choice.stage) ? 0 : transfer_);
      choices_[at(rank_with(to))] = choose(rank_with(to));
    }
  }

  const ListRules& rules_;
  const std::vector<StageCosts>& costs_;
  double transfer_;
  std::vector<Stage> stages_;
  std::vector<Rank> ranks_;
  std::vector<Choice> choices_;  // one per rank
  Schedule schedule_;
};

}  // namespace

std::optional<Schedule> list_schedule(std::vector<int> rank_of, int micro_batches, const std::vector<StageCosts>& costs,
                                      const TransferCosts& transfer, const ListRules& rules) {
  return ListScheduler(std::move(rank_of), micro_batches, costs, transfer, rules).run();
}

}  // namespace heddle
