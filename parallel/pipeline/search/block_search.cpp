#include "parallel/pipeline/search/block_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

namespace heddle {

namespace {

/// The number of candidates that are kept, and of those that are improved.
constexpr std::size_t max_kept = 24;
constexpr std::size_t max_improved = 4;

template <std::size_t n>
double one_of(const std::array<double, n>& values, RandomNumbers& random) {
  return values.at(at_index(random.below(static_cast<int>(n))));
}

}  // namespace

BlockSearch::BlockSearch(const SchedulingProblem& problem, double stop_at, SearchWatch& watch)
    : problem_(problem),
      watch_(watch),
      stop_at_(stop_at),
      slot_(problem.mean_action_time()),
      period_(3 * slot_ * static_cast<double>(problem.stages()) / problem.ranks()),
      tolerance_(1e-9 * slot_),
      scheduler_(problem) {}

bool BlockSearch::is_better(const BlockScheduler::Outcome& a, const BlockScheduler::Outcome& b) const {
  if (a.makespan < b.makespan - tolerance_) return true;
  return a.makespan <= b.makespan + tolerance_ && a.sum_of_ends < b.sum_of_ends - tolerance_;
}

void BlockSearch::sort(std::size_t first) {
  const auto end = best_.begin() + static_cast<std::ptrdiff_t>(std::min(first, best_.size()));
  std::stable_sort(best_.begin(), end, [](const Candidate& a, const Candidate& b) {
    return std::pair(a.outcome.makespan, a.outcome.sum_of_ends) < std::pair(b.outcome.makespan, b.outcome.sum_of_ends);
  });
}

double BlockSearch::step(int from_stage, int to_stage, int down, int up, int turn, bool with_transfer) const {
  const int from = problem_.rank_of[at_index(from_stage)];
  const int to = problem_.rank_of[at_index(to_stage)];
  if (from == to) return turn * slot_;
  const double steps = (to > from ? down : up) * slot_;
  return with_transfer ? steps + problem_.transfer.latency + problem_.transfer.occupancy : steps;
}

BlockSearch::Steps BlockSearch::steps_of(const Speeds& speeds) const {
  const int stages = problem_.stages();
  const auto part = [&](int a, int b) {
    const int rank = std::min(problem_.rank_of[at_index(a)], problem_.rank_of[at_index(b)]);
    return rank < speeds.changes_at ? std::size_t{0} : std::size_t{1};
  };
  Steps steps{.forward = std::vector<double>(at_index(stages)),
              .backward = std::vector<double>(at_index(stages), slot_)};
  for (int stage = 1; stage < stages; ++stage) {
    const std::size_t i = part(stage - 1, stage);
    steps.forward[at_index(stage)] = step(stage - 1, stage, speeds.forward_down.at(i), speeds.forward_up,
                                          speeds.forward_turn, speeds.with_transfers);
    steps.backward[at_index(stage - 1)] =
        step(stage, stage - 1, speeds.backward_down.at(i), 1, speeds.backward_turn, speeds.with_transfers);
  }
  steps.backward.back() = speeds.last * slot_;
  return steps;
}

/// The times of the block: sums of its steps.
void BlockSearch::place(Candidate& candidate) const {
  const std::size_t stages = at_index(problem_.stages());
  candidate.rules.forward.resize(stages);
  candidate.rules.backward_input.resize(stages);
  double time = 0;
  for (std::size_t stage = 0; stage < stages; ++stage)
    candidate.rules.forward[stage] = time += candidate.steps.forward[stage];
  for (std::size_t stage = stages; stage-- > 0;)
    candidate.rules.backward_input[stage] = time += candidate.steps.backward[stage];
}

void BlockSearch::try_out(Candidate candidate) {
  place(candidate);
  ++watch_.tried.blocks;
  const double limit = best_.size() < max_kept ? infinity : best_.back().outcome.makespan;
  const std::optional<BlockScheduler::Outcome> outcome = scheduler_.run(candidate.rules, limit);
  if (!outcome) return;
  candidate.outcome = *outcome;
  best_.push_back(std::move(candidate));
  sort(best_.size());
  if (best_.size() > max_kept) best_.pop_back();
}

/// Blocks with the constant speeds of V-Min, V-Half and V-ZB, and with speeds between these.
std::vector<BlockSearch::Candidate> BlockSearch::simplest() const {
  std::vector<Candidate> all;
  for (const double lookahead : {infinity, period_, 0.0})
    for (const double order_patience : {0.0, 0.9})
      for (int down = 1; down <= 5; ++down)
        for (const int turn : {1, 2}) {
          const Speeds speeds{
              .forward_down = {down, down}, .backward_down = {down, down}, .forward_turn = turn, .backward_turn = turn};
          Candidate candidate{.steps = steps_of(speeds), .rules = {}, .outcome = {}};
          candidate.rules.lookahead = lookahead;
          candidate.rules.order_patience = order_patience;
          all.push_back(std::move(candidate));
        }
  return all;
}

/// Whether a rank would have to do two F or I at once when blocks follow each other, if each action took one slot.
bool BlockSearch::collides(const Speeds& speeds) const {
  const Steps steps = steps_of(speeds);
  const int slots = 3 * problem_.stages() / problem_.ranks();
  std::vector<char> taken(at_index(slots * problem_.ranks()));
  double time = 0;
  const auto takes_free_slot = [&](int stage) {
    const int slot = static_cast<int>(std::lround(time / slot_)) % slots;
    return std::exchange(taken[at_index(problem_.rank_of[at_index(stage)] * slots + slot)], 1) == 0;
  };
  for (int stage = 0; stage < problem_.stages(); ++stage) {
    time += steps.forward[at_index(stage)];
    if (!takes_free_slot(stage)) return true;
  }
  for (int stage = problem_.stages() - 1; stage >= 0; --stage) {
    time += steps.backward[at_index(stage)];
    if (!takes_free_slot(stage)) return true;
  }
  return false;
}

/// Blocks of one speed: as even as the simplest ones, and executed in their order.
std::vector<BlockSearch::Candidate> BlockSearch::without_collisions() const {
  std::vector<Candidate> all;
  for (int down = 1; down <= 5; ++down)
    for (int phases = 0; phases < 216 && slot_ > 0; ++phases) {
      const Speeds speeds{.forward_down = {down, down},
                          .backward_down = {down, down},
                          .forward_turn = 1 + phases % 6,
                          .backward_turn = 1 + phases / 6 % 6,
                          .last = 1 + phases / 36,
                          .with_transfers = false};
      if (collides(speeds)) continue;
      for (const double weight_delay : {infinity, 2 * slot_}) {
        Candidate candidate{.steps = steps_of(speeds), .rules = {}, .outcome = {}};
        candidate.rules.lookahead = 0;
        candidate.rules.weight_delay = weight_delay;
        all.push_back(std::move(candidate));
      }
    }
  return all;
}

BlockSearch::Candidate BlockSearch::any_of_family(RandomNumbers& random) const {
  constexpr std::array patiences{0.0, 0.9};
  const int p = problem_.ranks();
  Speeds speeds{.changes_at = random.below(p),
                .forward_up = 1 + (random.below(4) == 0 ? 1 : 0),
                .forward_turn = 1 + random.below(6),
                .backward_turn = 1 + random.below(6),
                .last = 1 + random.below(6),
                .with_transfers = random.below(2) == 0};
  speeds.forward_down[0] = 1 + random.below(5);
  speeds.forward_down[1] = 1 + random.below(speeds.forward_down[0]);
  speeds.backward_down = speeds.forward_down;
  if (random.below(2) == 0) speeds.backward_down = {1 + random.below(5), 1 + random.below(5)};
  Candidate candidate{.steps = steps_of(speeds), .rules = {}, .outcome = {}};
  BlockRules& rules = candidate.rules;
  if (random.below(2) == 0) rules.max_in_flight = 1 + p / 3 + random.below(2 * p);
  if (random.below(3) > 0) rules.lookahead = 0.5 * random.below(5) * period_;
  rules.patience = one_of(patiences, random);
  rules.order_patience = one_of(patiences, random);
  if (random.below(2) == 0) rules.weight_delay = random.below(8) * slot_;
  return candidate;
}

void BlockSearch::try_family(std::int64_t budget, RandomNumbers& random) {
  const std::int64_t end = scheduler_.actions_scheduled() + budget;
  const auto is_over = [&] {
    return scheduler_.actions_scheduled() >= end || (found() && makespan() <= stop_at_ + tolerance_) || watch_.poll();
  };
  const auto try_with_period = [&](Candidate candidate) {
    candidate.rules.period = period_;
    try_out(std::move(candidate));
  };
  for (std::vector<Candidate> candidates : {simplest(), without_collisions()})
    for (Candidate& candidate : candidates)
      if (!is_over()) try_with_period(std::move(candidate));
  // Runs that end before their first action are not free, either.
  for (std::int64_t tries = 0; tries < budget && !is_over(); ++tries) try_with_period(any_of_family(random));
}

void BlockSearch::adopt(const BlockSearch& other) {
  for (const Candidate& candidate : other.best_) try_out(candidate);
}

/// Moves one of the block's times and all after it, or changes a rule.
void BlockSearch::change(Candidate& candidate, RandomNumbers& random) const {
  constexpr std::array patiences{0.0, 0.3, 0.5, 0.9, 1.0};
  BlockRules& rules = candidate.rules;
  const int what = random.below(20);
  if (what < 17) {
    std::vector<double>& steps = what < 9 ? candidate.steps.forward : candidate.steps.backward;
    steps[at_index(random.below(problem_.stages()))] += 0.5 * (random.below(9) - 4) * slot_;
  } else if (what == 17) {
    rules.lookahead = random.below(2) == 0 ? infinity : 0.25 * random.below(13) * rules.period;
  } else if (what == 18) {
    (random.below(2) == 0 ? rules.patience : rules.order_patience) = one_of(patiences, random);
  } else if (random.below(2) == 0) {
    rules.max_in_flight = 1 + random.below(3 * problem_.ranks());
  } else {
    rules.weight_delay = random.below(3) > 0 ? infinity : random.below(20) * slot_;
  }
}

void BlockSearch::improve(std::int64_t budget, RandomNumbers& random) {
  if (!found()) return;
  const std::int64_t end = scheduler_.actions_scheduled() + budget;
  // From all of those kept, because the best are often the same schedule. They stay in front: the best one is among
  // them.
  const std::size_t count = std::min(max_improved, best_.size());
  for (std::size_t i = 1; i < count; ++i) std::swap(best_[i], best_[i * best_.size() / count]);
  for (std::size_t turn = 0; scheduler_.actions_scheduled() < end && !watch_.poll(); ++turn) {
    ++watch_.tried.blocks;
    Candidate& current = best_[turn % count];
    Candidate changed = current;
    for (int changes = 1 + random.below(3); changes > 0; --changes) change(changed, random);
    place(changed);
    const auto outcome = scheduler_.run(changed.rules, current.outcome.makespan + tolerance_);
    if (!outcome || is_better(current.outcome, *outcome)) continue;
    changed.outcome = *outcome;
    current = std::move(changed);
    if (current.outcome.makespan <= stop_at_ + tolerance_) break;
  }
  sort(count);
}

Schedule BlockSearch::schedule(std::size_t candidate) {
  scheduler_.run(best_.at(candidate).rules);
  return scheduler_.schedule();
}

}  // namespace heddle
