#include "parallel/pipeline/search/reordering.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace heddle {

namespace {

/// How far an action moves at most.
constexpr int max_distance = 8;
/// The weight of the ranks' average end in the objective, which distinguishes schedules of equal makespan.
constexpr double weight_of_ends = 0.05;

/// Stands for an action's number where there is none.
constexpr int no_action = -1;

/// The times of a schedule whose actions are numbered.
class Timing {
 public:
  explicit Timing(const SchedulingProblem& problem)
      : problem_(problem),
        cells_(problem.stages() * problem.micro_batches),
        arrivals_(at_index(2 * cells_)),
        seconds_(at_index(3 * cells_)),
        waits_for_(at_index(3 * cells_)),
        link_free_(at_index(problem.ranks()) * at_index(problem.ranks())),
        free_(at_index(problem.ranks())),
        next_(at_index(problem.ranks())),
        is_queued_(at_index(problem.ranks())) {
    for (int action = 0; action < 3 * cells_; ++action) {
      const StageCosts& costs = problem.costs[at_index(stage(action))];
      seconds_[at_index(action)] = action < cells_       ? costs.forward
                                   : action < 2 * cells_ ? costs.backward_input
                                                         : costs.backward_weight;
    }
  }

  int number(const Action& action) const {
    const int kind = action.kind == ActionKind::forward ? 0 : action.kind == ActionKind::backward_input ? 1 : 2;
    return kind * cells_ + action.stage * problem_.micro_batches + action.micro_batch;
  }
  int kind(int action) const { return action / cells_; }
  ActionKind action_kind(int action) const {
    constexpr ActionKind kinds[] = {ActionKind::forward, ActionKind::backward_input, ActionKind::backward_weight};
    return kinds[kind(action)];
  }
  int stage(int action) const { return action % cells_ / problem_.micro_batches; }
  int micro_batch(int action) const { return action % problem_.micro_batches; }
  Action action(int number) const { return {action_kind(number), stage(number), micro_batch(number)}; }
  int rank(int action) const { return problem_.rank_of[at_index(stage(action))]; }

  /// False if the lists cannot be executed or take longer than `limit`.
  bool run(const std::vector<std::vector<int>>& lists, double limit) {
    reset(lists);
    while (!queue_.empty()) {
      const int rank = queue_.back();
      queue_.pop_back();
      is_queued_[at_index(rank)] = false;
      if (!advance(rank, lists[at_index(rank)], limit)) return false;
    }
    if (left_ > 0) return false;
    makespan_ = *std::max_element(free_.begin(), free_.end());
    double sum = 0;
    for (const double end : free_) sum += end;
    cost_ = makespan_ + weight_of_ends * sum / static_cast<double>(free_.size());
    return true;
  }

  double makespan() const { return makespan_; }
  double cost() const { return cost_; }
  double end_of(int rank) const { return free_[at_index(rank)]; }
  /// The action whose result this one waits for; `no_action` if it waits for its rank.
  int waits_for(int action) const { return waits_for_[at_index(action)]; }
  std::int64_t actions_timed() const { return actions_timed_; }

 private:
  void reset(const std::vector<std::vector<int>>& lists) {
    std::fill(arrivals_.begin(), arrivals_.end(), infinity);
    std::fill(arrivals_.begin(), arrivals_.begin() + problem_.micro_batches, 0.0);
    std::fill(link_free_.begin(), link_free_.end(), 0.0);
    left_ = 0;
    queue_.clear();
    for (int rank = problem_.ranks() - 1; rank >= 0; --rank) {
      free_[at_index(rank)] = 0;
      next_[at_index(rank)] = 0;
      is_queued_[at_index(rank)] = true;
      queue_.push_back(rank);
      left_ += static_cast<int>(lists[at_index(rank)].size());
    }
    work_left_ = problem_.work;
  }

  /// When the input of an F or the gradient of an I arrives. A W follows its I, which is on the same rank: the order of
  /// the list ensures it.
  double arrival_of(int action) const { return action < 2 * cells_ ? arrivals_[at_index(action)] : 0; }

  bool advance(int rank, const std::vector<int>& list, double limit) {
    int& next = next_[at_index(rank)];
    double& free = free_[at_index(rank)];
    for (; next < static_cast<int>(list.size()); ++next) {
      const int action = list[at_index(next)];
      const double arrival = arrival_of(action);
      if (arrival == infinity) return true;
      waits_for_[at_index(action)] = arrival > free ? source(action) : no_action;
      free = std::max(free, arrival) + seconds_[at_index(action)];
      double& work_left = work_left_[at_index(rank)];
      work_left -= seconds_[at_index(action)];
      if (free + work_left > limit) return false;
      ++actions_timed_;
      --left_;
      deliver(rank, action);
    }
    return true;
  }

  int source(int action) const {
    if (kind(action) == 0) return action - problem_.micro_batches;
    return stage(action) == problem_.stages() - 1 ? action - cells_ : action + problem_.micro_batches;
  }

  void deliver(int rank, int action) {
    const int s = stage(action);
    if (kind(action) == 2 || (kind(action) == 1 && s == 0)) return;
    if (kind(action) == 0 && s == problem_.stages() - 1) {
      arrivals_[at_index(action + cells_)] = free_[at_index(rank)];
      return;
    }
    const int to_stage = kind(action) == 0 ? s + 1 : s - 1;
    const int to_rank = problem_.rank_of[at_index(to_stage)];
    double arrival = free_[at_index(rank)];
    if (to_rank != rank) {
      double& link_free = link_free_[at_index(rank) * free_.size() + at_index(to_rank)];
      link_free = std::max(link_free, arrival) + problem_.transfer.occupancy;
      arrival = link_free + problem_.transfer.latency;
      if (!is_queued_[at_index(to_rank)]) {
        is_queued_[at_index(to_rank)] = true;
        queue_.push_back(to_rank);
      }
    }
    arrivals_[at_index(action + (to_stage - s) * problem_.micro_batches)] = arrival;
  }

  const SchedulingProblem& problem_;
  int cells_;  // F, I and W are numbered one after the other, each by stage and micro-batch
  std::vector<double> arrivals_;
  std::vector<double> seconds_;
  std::vector<int> waits_for_;
  std::vector<double> link_free_;
  std::vector<double> work_left_;
  std::vector<double> free_;
  std::vector<int> next_;
  std::vector<bool> is_queued_;
  std::vector<int> queue_;
  int left_ = 0;
  double makespan_ = 0;
  double cost_ = 0;
  std::int64_t actions_timed_ = 0;
};

class Annealing {
 public:
  Annealing(const SchedulingProblem& problem, const Schedule& schedule, RandomNumbers& random)
      : problem_(problem),
        random_(random),
        timing_(problem),
        where_(3 * schedule.rank_of.size() * at_index(schedule.micro_batches)) {
    for (const std::vector<Action>& list : schedule.ranks) {
      std::vector<int>& numbers = lists_.emplace_back();
      for (const Action& action : list) numbers.push_back(timing_.number(action));
    }
  }

  double makespan() {
    timing_.run(lists_, infinity);
    return timing_.makespan();
  }

  ReorderedSchedule run(const AnnealingOptions& options, SearchWatch& watch) {
    timing_.run(lists_, infinity);
    double current = timing_.cost();
    double best_cost = current;
    double best_makespan = timing_.makespan();
    std::vector<std::vector<int>> best = lists_;
    find_critical();
    const double unit = problem_.mean_action_time();
    const double tolerance = 1e-9 * unit;
    for (std::int64_t spent = 0; spent < options.budget && best_makespan > options.stop_at + tolerance && !watch.poll();
         spent = timing_.actions_timed() + tries_) {
      ++tries_;
      ++watch.tried.reorderings;
      const double cooling = 1 - static_cast<double>(spent) / static_cast<double>(options.budget);
      const double limit = current - (options.temperature * cooling + 1e-6) * unit * std::log(random_.positive());
      const Move move = any_move();
      if (!apply(move)) continue;
      if (!timing_.run(lists_, limit + tolerance) || timing_.cost() > limit + tolerance) {
        undo(move);
        continue;
      }
      current = timing_.cost();
      find_critical();
      if (current >= best_cost - tolerance) continue;
      best_cost = current;
      best_makespan = timing_.makespan();
      best = lists_;
    }
    return {with_lists(best), best_makespan};
  }

 private:
  /// `length` actions, of which the first is at `from`, go to `to`.
  struct Move {
    int rank = 0;
    int from = 0;
    int to = 0;
    int length = 1;
  };

  Move any_move() {
    // Where memory is short, only an I and its W together may come before an F.
    const int length = random_.below(3) > 0 ? 1 : 2 + random_.below(2);
    if (critical_.empty() || random_.below(4) == 0) {
      const int rank = random_.below(problem_.ranks());
      const int from = random_.below(static_cast<int>(lists_[at_index(rank)].size()));
      const int distance = 1 + random_.below(max_distance);
      return {rank, from, random_.below(2) == 0 ? from - distance : from + distance, length};
    }
    const auto [rank, position] = critical_[at_index(random_.below(static_cast<int>(critical_.size())))];
    if (random_.below(3) == 0) return {rank, position, position - 1, length};
    const int distance = random_.below(max_distance);
    if (random_.below(2) == 0) return {rank, position, position - 1 - distance, length};
    return {rank, position - length, position - length + 1 + distance, length};
  }

  bool apply(const Move& move) {
    std::vector<int>& list = lists_[at_index(move.rank)];
    const int last = static_cast<int>(list.size()) - move.length;
    if (std::min(move.from, move.to) < 0 || std::max(move.from, move.to) > last || move.to == move.from) return false;
    const int begin = move.to < move.from ? move.to : move.from + move.length;
    const int end = move.to < move.from ? move.from : move.to + move.length;
    for (int moved = move.from; moved < move.from + move.length; ++moved)
      for (int passed = begin; passed < end; ++passed)
        if (!may_pass(list[at_index(moved)], list[at_index(passed)])) return false;
    shift(list, move.from, move.to, move.length);
    if (fits(move.rank)) return true;
    undo(move);
    return false;
  }

  void undo(const Move& move) { shift(lists_[at_index(move.rank)], move.to, move.from, move.length); }

  static void shift(std::vector<int>& list, int from, int to, int length) {
    const auto begin = list.begin();
    if (to < from)
      std::rotate(begin + to, begin + from, begin + from + length);
    else
      std::rotate(begin + from, begin + from + length, begin + to + length);
  }

  /// The order of a stage's micro-batches, and of a micro-batch's F, I and W, stays as it is.
  bool may_pass(int a, int b) const {
    return timing_.stage(a) != timing_.stage(b) ||
           (timing_.kind(a) != timing_.kind(b) && timing_.micro_batch(a) != timing_.micro_batch(b));
  }

  bool fits(int rank) const {
    double held = 0;
    for (const int action : lists_[at_index(rank)]) {
      held += change_of_held(problem_.costs[at_index(timing_.stage(action))], timing_.action_kind(action));
      if (held > problem_.max_held()) return false;
    }
    return true;
  }

  /// The actions of a critical path that wait for the one before them in their rank's list.
  void find_critical() {
    critical_.clear();
    int action = no_action;
    int candidates = 0;
    for (int rank = 0; rank < problem_.ranks(); ++rank) {
      const std::vector<int>& list = lists_[at_index(rank)];
      for (std::size_t i = 0; i < list.size(); ++i) where_[at_index(list[i])] = static_cast<int>(i);
      if (list.empty() || timing_.end_of(rank) < timing_.makespan()) continue;
      if (random_.below(++candidates) == 0) action = list.back();
    }
    while (action != no_action) {
      if (const int source = timing_.waits_for(action); source != no_action) {
        action = source;
        continue;
      }
      const int rank = timing_.rank(action);
      const int position = where_[at_index(action)];
      if (position == 0) return;
      critical_.emplace_back(rank, position);
      action = lists_[at_index(rank)][at_index(position - 1)];
    }
  }

  Schedule with_lists(const std::vector<std::vector<int>>& lists) const {
    Schedule schedule{.micro_batches = problem_.micro_batches, .rank_of = problem_.rank_of, .ranks = {}};
    for (const std::vector<int>& list : lists) {
      std::vector<Action>& actions = schedule.ranks.emplace_back();
      for (const int number : list) actions.push_back(timing_.action(number));
    }
    return schedule;
  }

  const SchedulingProblem& problem_;
  RandomNumbers& random_;
  Timing timing_;
  std::vector<std::vector<int>> lists_;
  std::vector<int> where_;
  std::vector<std::pair<int, int>> critical_;  // rank and position
  std::int64_t tries_ = 0;
};

}  // namespace

double makespan_of(const SchedulingProblem& problem, const Schedule& schedule) {
  RandomNumbers unused(0);
  return Annealing(problem, schedule, unused).makespan();
}

ReorderedSchedule reorder(const SchedulingProblem& problem, const Schedule& schedule, const AnnealingOptions& options,
                          RandomNumbers& random, SearchWatch& watch) {
  return Annealing(problem, schedule, random).run(options, watch);
}

}  // namespace heddle
