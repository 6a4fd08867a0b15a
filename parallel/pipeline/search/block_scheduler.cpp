#include "parallel/pipeline/search/block_scheduler.h"

#include <algorithm>
#include <cstddef>

namespace heddle {

BlockScheduler::BlockScheduler(const SchedulingProblem& problem)
    : problem_(problem),
      rounding_(1e-9 * problem.mean_action_time()),
      input_arrival_(at_index(problem.stages()) * at_index(problem.micro_batches)),
      gradient_arrival_(input_arrival_.size()),
      link_free_(at_index(problem.ranks()) * at_index(problem.ranks())),
      stages_(at_index(problem.stages())),
      ranks_(at_index(problem.ranks())),
      choices_(ranks_.size()),
      lists_(ranks_.size()) {}

std::size_t BlockScheduler::cell(int stage, int micro_batch) const {
  return at_index(stage) * at_index(problem_.micro_batches) + at_index(micro_batch);
}

void BlockScheduler::reset(const BlockRules& rules) {
  rules_ = &rules;
  std::fill(input_arrival_.begin(), input_arrival_.end(), infinity);
  std::fill(gradient_arrival_.begin(), gradient_arrival_.end(), infinity);
  std::fill(input_arrival_.begin(), input_arrival_.begin() + problem_.micro_batches, 0.0);
  std::fill(link_free_.begin(), link_free_.end(), 0.0);
  std::fill(stages_.begin(), stages_.end(), Stage{});
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank] = {.free = 0, .work_left = problem_.work[rank]};
    lists_[rank].clear();
  }
  for (int rank = 0; rank < problem_.ranks(); ++rank) choices_[at_index(rank)] = choose(rank);
}

std::optional<BlockScheduler::Outcome> BlockScheduler::run(const BlockRules& rules, double limit) {
  reset(rules);
  for (std::int64_t left = std::int64_t{3} * problem_.stages() * problem_.micro_batches; left > 0; --left) {
    const auto first = std::min_element(choices_.begin(), choices_.end(),
                                        [](const Choice& a, const Choice& b) { return a.begin < b.begin; });
    if (first->begin == infinity) return std::nullopt;
    const auto rank = static_cast<int>(first - choices_.begin());
    execute(rank);
    if (ranks_[at_index(rank)].free + ranks_[at_index(rank)].work_left > limit) return std::nullopt;
  }
  Outcome outcome;
  for (const Rank& rank : ranks_) {
    outcome.makespan = std::max(outcome.makespan, rank.free);
    outcome.sum_of_ends += rank.free;
  }
  return outcome;
}

Schedule BlockScheduler::schedule() const {
  return {.micro_batches = problem_.micro_batches, .rank_of = problem_.rank_of, .ranks = lists_};
}

double BlockScheduler::priority(ActionKind kind, int stage, int micro_batch) const {
  return (kind == ActionKind::forward ? rules_->forward : rules_->backward_input)[at_index(stage)] +
         rules_->period * micro_batch;
}

/// The smallest priority of the rank's F and I that are left.
double BlockScheduler::earliest_in_block(int rank) const {
  double earliest = infinity;
  for (const int stage : problem_.stages_of[at_index(rank)]) {
    const Stage& s = stages_[at_index(stage)];
    if (s.forward < problem_.micro_batches)
      earliest = std::min(earliest, priority(ActionKind::forward, stage, s.forward));
    if (s.backward_input < problem_.micro_batches)
      earliest = std::min(earliest, priority(ActionKind::backward_input, stage, s.backward_input));
  }
  return earliest;
}

/// Whether an F of the rank's stage number `chunk` fits into the memory. Each later stage of the rank must keep space
/// for one micro-batch beside the activations of the stages before it: then the micro-batch that is farthest can always
/// go on, and no schedule ends in a deadlock.
BlockScheduler::Fit BlockScheduler::fit(int rank, std::size_t chunk) const {
  const std::vector<int>& stages = problem_.stages_of[at_index(rank)];
  double later = 0;
  for (std::size_t k = chunk + 1; k < stages.size(); ++k) later += problem_.costs[at_index(stages[k])].activations;
  double active = problem_.costs[at_index(stages[chunk])].activations;
  double waiting = 0;
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const StageCosts& costs = problem_.costs[at_index(stages[k])];
    const Stage& s = stages_[at_index(stages[k])];
    active += (s.forward - s.backward_input) * costs.activations;
    waiting += (s.backward_input - s.backward_weight) * costs.weight_inputs;
    if (k > chunk) later -= costs.activations;
    if (k >= chunk && active + later > problem_.max_held()) return Fit::never;
  }
  return active + waiting > problem_.max_held() ? Fit::after_weights : Fit::now;
}

/// Collects the F and I whose inputs have arrived or are on their way. The first F that only pending W's keep from its
/// memory goes to `without_weights`.
void BlockScheduler::collect(int rank, Choice& without_weights) {
  collected_.clear();
  const double free = ranks_[at_index(rank)].free;
  const double latest = rules_->lookahead == infinity ? infinity : earliest_in_block(rank) + rules_->lookahead;
  const std::vector<int>& stages = problem_.stages_of[at_index(rank)];
  for (std::size_t chunk = 0; chunk < stages.size(); ++chunk) {
    const int stage = stages[chunk];
    const Stage& s = stages_[at_index(stage)];
    if (s.backward_input < s.forward) {
      const double arrival = gradient_arrival_[cell(stage, s.backward_input)];
      if (arrival < infinity)
        collected_.push_back({ActionKind::backward_input, stage, std::max(free, arrival),
                              priority(ActionKind::backward_input, stage, s.backward_input)});
    }
    if (s.forward == problem_.micro_batches || (stage == 0 && s.forward - s.backward_input >= rules_->max_in_flight))
      continue;
    const double arrival = input_arrival_[cell(stage, s.forward)];
    const Choice forward{ActionKind::forward, stage, std::max(free, arrival),
                         priority(ActionKind::forward, stage, s.forward)};
    if (arrival == infinity || forward.priority > latest) continue;
    const Fit found = fit(rank, chunk);
    if (found == Fit::now) collected_.push_back(forward);
    if (found != Fit::after_weights) continue;
    without_weights.begin = std::min(without_weights.begin, forward.begin);
    without_weights.priority = std::min(without_weights.priority, forward.priority);
  }
}

/// The first in the block of those that begin first, or one that is worth a wait.
BlockScheduler::Choice BlockScheduler::best_collected() const {
  Choice best;
  for (const Choice& c : collected_)
    if (c.begin < best.begin - rounding_ || (c.begin <= best.begin + rounding_ && c.priority < best.priority)) best = c;
  if (rules_->order_patience <= 0 || collected_.empty()) return best;
  const StageCosts& costs = problem_.costs[at_index(best.stage)];
  const double latest =
      best.begin + rules_->order_patience * (best.kind == ActionKind::forward ? costs.forward : costs.backward_input);
  for (const Choice& c : collected_)
    if (c.priority < best.priority && c.begin <= latest) best = c;
  return best;
}

/// The W whose I is first in the block; its priority is that of the I.
BlockScheduler::Choice BlockScheduler::next_weight(int rank) const {
  Choice best;
  for (const int stage : problem_.stages_of[at_index(rank)]) {
    const Stage& s = stages_[at_index(stage)];
    if (s.backward_weight == s.backward_input) continue;
    const double of_input = priority(ActionKind::backward_input, stage, s.backward_weight);
    if (of_input < best.priority) best = {ActionKind::backward_weight, stage, ranks_[at_index(rank)].free, of_input};
  }
  return best;
}

bool BlockScheduler::takes_weight(const Choice& weight, const Choice& other, const Choice& without_weights) const {
  if (weight.begin == infinity) return false;
  const double gap = other.begin - weight.begin;
  if (other.begin == infinity ||
      (gap > 0 && gap >= rules_->patience * problem_.costs[at_index(weight.stage)].backward_weight))
    return true;
  if (without_weights.begin <= other.begin &&
      (other.kind == ActionKind::forward || without_weights.priority < other.priority))
    return true;
  return weight.priority + rules_->weight_delay < other.priority;
}

/// What the rank does next, and when. No choice of another rank that begins earlier can change it.
BlockScheduler::Choice BlockScheduler::choose(int rank) {
  Choice without_weights;
  collect(rank, without_weights);
  const Choice other = best_collected();
  const Choice weight = next_weight(rank);
  return takes_weight(weight, other, without_weights) ? weight : other;
}

void BlockScheduler::execute(int rank) {
  const Choice choice = choices_[at_index(rank)];
  const StageCosts& costs = problem_.costs[at_index(choice.stage)];
  Stage& stage = stages_[at_index(choice.stage)];
  int micro_batch = 0;
  double seconds = 0;
  if (choice.kind == ActionKind::forward) {
    micro_batch = stage.forward++;
    seconds = costs.forward;
  } else if (choice.kind == ActionKind::backward_input) {
    micro_batch = stage.backward_input++;
    seconds = costs.backward_input;
  } else {
    micro_batch = stage.backward_weight++;
    seconds = costs.backward_weight;
  }
  Rank& r = ranks_[at_index(rank)];
  r.free = choice.begin + seconds;
  r.work_left -= seconds;
  lists_[at_index(rank)].push_back({choice.kind, choice.stage, micro_batch});
  ++actions_scheduled_;
  if (choice.kind == ActionKind::forward && choice.stage == problem_.stages() - 1)
    gradient_arrival_[cell(choice.stage, micro_batch)] = r.free;
  else if (choice.kind == ActionKind::forward)
    deliver(rank, choice.stage + 1, micro_batch, r.free, input_arrival_);
  else if (choice.kind == ActionKind::backward_input && choice.stage > 0)
    deliver(rank, choice.stage - 1, micro_batch, r.free, gradient_arrival_);
  choices_[at_index(rank)] = choose(rank);
}

void BlockScheduler::deliver(int from_rank, int to_stage, int micro_batch, double end, std::vector<double>& arrivals) {
  const int to_rank = problem_.rank_of[at_index(to_stage)];
  if (to_rank == from_rank) {
    arrivals[cell(to_stage, micro_batch)] = end;
    return;
  }
  double& link_free = link_free_[at_index(from_rank) * ranks_.size() + at_index(to_rank)];
  link_free = std::max(link_free, end) + problem_.transfer.occupancy;
  arrivals[cell(to_stage, micro_batch)] = link_free + problem_.transfer.latency;
  choices_[at_index(to_rank)] = choose(to_rank);
}

}  // namespace heddle
