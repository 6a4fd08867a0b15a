#include "parallel/pipeline/passes/loss_in_parts.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/passes/rewriting.h"

namespace heddle {
namespace {

/// Executes the lists, and lets each rank begin the next part of the loss as soon as it is free and the part can begin,
/// before the next action of its list. All ranks take the parts in the order in which the first of them does.
class PartsInTime {
 public:
  explicit PartsInTime(const Schedule& schedule)
      : schedule_(schedule),
        result_(schedule),
        forward_(schedule, never),
        backward_(schedule, never),
        broadcasts_(at_index(schedule.micro_batches)),
        sums_(broadcasts_.size()),
        gradients_(broadcasts_.size()),
        ranks_(schedule.ranks.size()) {
    for (std::vector<Action>& list : result_.ranks) list.clear();
    for (int rank = 0; rank < schedule.size(); ++rank) wake(rank);
  }

  Schedule run() {
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      RankState& state = ranks_[at_index(entry.rank)];
      if (entry.number != state.number) continue;  // a later one replaces it
      if (entry.part)
        take_part(entry.rank, *entry.part, entry.begin);
      else
        take_actions(entry.rank, entry.begin);
    }
    for (int rank = 0; rank < schedule_.size(); ++rank)
      if (ranks_[at_index(rank)].next != static_cast<int>(schedule_.ranks[at_index(rank)].size()) ||
          ranks_[at_index(rank)].taken != order_.size())
        fail<InputError>("with_loss: the schedule cannot be executed");
    for (int rank = 0; rank < schedule_.size(); ++rank) broadcast_early(rank);
    return std::move(result_);
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();
  /// What an S takes here, where an F takes one unit. An S that is longer delays all ranks alike.
  static constexpr double sums_time = 0.5;

  /// A part of all ranks for one micro-batch.
  struct Collective {
    int ranks = 0;   // that have computed it
    double end = 0;  // when the last of them had
  };
  struct RankState {
    int next = 0;           // its first action that has not been taken
    std::size_t taken = 0;  // the parts, in order_
    double free = 0;
    int number = 0;  // of its last entry
  };
  /// What a rank does next, if nothing else happens before.
  struct Entry {
    double begin;
    int priority;
    int rank;
    int number;
    std::optional<Action> part;  // else the next actions of its list
    bool operator>(const Entry& other) const {
      return std::tie(begin, priority, other.rank) > std::tie(other.begin, other.priority, rank);
    }
  };

  static double duration(const Action& action) {
    if (is_offload_or_load(action.kind)) return 0;
    return action.kind == ActionKind::backward ? 2 : 1;
  }
  int last() const { return schedule_.stages() - 1; }
  Action part(ActionKind kind, int micro_batch) const { return {kind, last(), micro_batch}; }
  bool has_output(int rank, int micro_batch) const { return schedule_.rank_at(last(), micro_batch) == rank; }

  Collective& collective(const Action& part) {
    if (part.kind == ActionKind::loss_broadcast) return broadcasts_[at_index(part.micro_batch)];
    return part.kind == ActionKind::loss_sums ? sums_[at_index(part.micro_batch)]
                                              : gradients_[at_index(part.micro_batch)];
  }
  /// When all ranks have computed a part; never, as long as one has not.
  double end_of(const Collective& of_ranks) const { return of_ranks.ranks == schedule_.size() ? of_ranks.end : never; }

  /// When the part of a rank has its input.
  double arrival_of(int rank, const Action& part) {
    const int i = part.micro_batch;
    if (part.kind == ActionKind::loss_sums) return end_of(broadcasts_[at_index(i)]);
    if (part.kind == ActionKind::loss_gradient) return end_of(sums_[at_index(i)]);
    return has_output(rank, i) ? forward_(part) : 0;
  }
  double arrival_of(const Action& action) {
    const int s = action.stage;
    const int i = action.micro_batch;
    if (action.kind == ActionKind::forward) return s == 0 ? 0 : forward_(s - 1, i);
    if (!is_backward(action.kind)) return 0;
    return s == last() ? end_of(schedule_.has_loss_in_one_exchange ? sums_[at_index(i)] : gradients_[at_index(i)])
                       : backward_(s + 1, i);
  }

  /// The parts that a rank may take next: the one that another rank has taken there, or else any.
  std::vector<Action> possible_parts(int rank) const {
    const std::size_t taken = ranks_[at_index(rank)].taken;
    if (taken < order_.size()) return {order_[taken]};
    std::vector<Action> parts;
    if (gradients_count_ < broadcast_order_.size())
      parts.push_back(part(ActionKind::loss_gradient, broadcast_order_[gradients_count_]));
    if (!ended_.empty() && has_output(rank, ended_.front()))
      parts.push_back(part(ActionKind::loss_broadcast, ended_.front()));
    if (sums_count_ < broadcast_order_.size())
      parts.push_back(part(ActionKind::loss_sums, broadcast_order_[sums_count_]));
    return parts;
  }

  /// The least is taken first where several things may begin at the same time.
  static int priority(ActionKind kind) {
    return kind == ActionKind::loss_gradient ? 0 : kind == ActionKind::loss_broadcast ? 1 : 2;
  }

  /// Puts what a rank does next into the queue, in place of what it would have done.
  void wake(int rank) {
    RankState& state = ranks_[at_index(rank)];
    ++state.number;
    std::optional<Entry> best;
    const auto offer = [&](double arrival, int priority, const std::optional<Action>& part) {
      if (arrival == never) return;
      const Entry entry{std::max(state.free, arrival), priority, rank, state.number, part};
      if (!best || *best > entry) best = entry;
    };
    for (const Action& part : possible_parts(rank)) offer(arrival_of(rank, part), priority(part.kind), part);
    const std::vector<Action>& list = schedule_.ranks[at_index(rank)];
    if (state.next < static_cast<int>(list.size())) {
      constexpr int after_parts = 3;
      double latest = 0;
      const int end = end_of_overlap(list, state.next);
      for (int i = state.next; i < end; ++i) latest = std::max(latest, arrival_of(list[at_index(i)]));
      offer(latest, after_parts, std::nullopt);
    }
    if (best) queue_.push(*best);
  }
  void wake_all() {
    for (int rank = 0; rank < schedule_.size(); ++rank) wake(rank);
  }

  void take_part(int rank, const Action& part, double begin) {
    RankState& state = ranks_[at_index(rank)];
    const bool is_first = state.taken == order_.size();
    if (is_first) add_to_order(part);
    ++state.taken;
    result_.ranks[at_index(rank)].push_back(part);
    state.free = begin + (part.kind == ActionKind::loss_sums ? sums_time : 0);
    Collective& all = collective(part);
    all.end = std::max(all.end, state.free);
    if (++all.ranks == schedule_.size() || is_first)
      wake_all();
    else
      wake(rank);
  }

  void add_to_order(const Action& part) {
    order_.push_back(part);
    if (part.kind == ActionKind::loss_broadcast) {
      broadcast_order_.push_back(part.micro_batch);
      ended_.pop();
    }
    sums_count_ += part.kind == ActionKind::loss_sums;
    gradients_count_ += part.kind == ActionKind::loss_gradient;
  }

  void take_actions(int rank, double begin) {
    RankState& state = ranks_[at_index(rank)];
    const std::vector<Action>& list = schedule_.ranks[at_index(rank)];
    const int end = end_of_overlap(list, state.next);
    state.free = begin;
    for (int i = state.next; i < end; ++i) state.free += duration(list[at_index(i)]);
    append(result_.ranks[at_index(rank)], list, state.next, end);
    const int first = std::exchange(state.next, end);
    for (int i = first; i < end; ++i) {
      const Action& action = list[at_index(i)];
      if (action.kind == ActionKind::forward) {
        forward_(action) = state.free;
        if (action.stage < last())
          wake(schedule_.rank_at(action.stage + 1, action.micro_batch));
        else
          ended_.push(action.micro_batch);
      } else if (is_backward(action.kind)) {
        backward_(action) = state.free;
        if (action.stage > 0) wake(schedule_.rank_at(action.stage - 1, action.micro_batch));
      }
    }
    wake(rank);  // also for an output of its own
  }

  /// A rank without the last stage's output does not wait in a J, which here had its place where the rank was free:
  /// moves each right behind the part before it. (If S did not wait for that place, schedules whose F and B take
  /// equally long would be up to a tenth slower.)
  void broadcast_early(int rank) {
    std::vector<Action>& list = result_.ranks[at_index(rank)];
    std::vector<Action> moved;
    std::size_t parts = 0;  // up to the last one in `moved`
    const auto append_broadcasts = [&] {
      for (; parts < order_.size() && order_[parts].kind == ActionKind::loss_broadcast &&
             !has_output(rank, order_[parts].micro_batch);
           ++parts)
        moved.push_back(order_[parts]);
    };
    append_broadcasts();
    for (const Action& action : list) {
      if (action.kind == ActionKind::loss_broadcast && !has_output(rank, action.micro_batch)) continue;
      moved.push_back(action);
      if (!is_loss(action.kind)) continue;
      ++parts;
      append_broadcasts();
    }
    list = std::move(moved);
  }

  const Schedule& schedule_;
  Schedule result_;
  PerCell<double> forward_;             // the end of F
  PerCell<double> backward_;            // the end of B or I
  std::vector<Collective> broadcasts_;  // per micro-batch: J
  std::vector<Collective> sums_;        // S
  std::vector<Collective> gradients_;   // T
  std::vector<RankState> ranks_;
  std::vector<Action> order_;         // of the parts, on all ranks
  std::queue<int> ended_;             // micro-batches that have left the last stage and have no J
  std::vector<int> broadcast_order_;  // micro-batches, in the order of their J, which S and T follow
  std::size_t sums_count_ = 0;
  std::size_t gradients_count_ = 0;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

Schedule with_loss_in_parts(const Schedule& schedule) {
  return PartsInTime(schedule).run();
}

}  // namespace heddle
