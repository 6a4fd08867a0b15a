#include "parallel/pipeline/dependencies.h"

#include <algorithm>
#include <array>

namespace heddle {
namespace {

/// What has been computed for one micro-batch in one stage.
enum CellState : unsigned char {
  forward_done = 1,
  backward_done = 2,     // B or I
  forward_arrived = 4,   // what the stage made, on the rank of the next stage
  backward_arrived = 8,  // the gradient of the stage's input, on the rank of the stage before
  offloaded = 16         // O without its L
};

class Walker {
  static constexpr std::size_t kinds_of_loss = 4;

 public:
  explicit Walker(const Schedule& schedule)
      : schedule_(schedule),
        states_(schedule),
        has_broadcast_(at_index(schedule.micro_batches)),
        arrived_(kinds_of_loss * at_index(schedule.micro_batches)),
        arrived_at_(schedule.ranks.size(), -1),
        queued_(schedule.ranks.size(), true),
        added_(additions(schedule)) {
    walk_.reached.resize(schedule.ranks.size());
    walk_.waits_for.resize(schedule.ranks.size());
    for (int rank = schedule.size() - 1; rank >= 0; --rank) queue_.push_back(rank);
  }

  Walk run(const Visit& visit) {
    while (!queue_.empty()) {
      const int rank = queue_.back();
      queue_.pop_back();
      queued_[at_index(rank)] = false;
      advance(rank, visit);
    }
    return std::move(walk_);
  }

 private:
  bool known(int stage, int micro_batch, CellState state) { return (states_(stage, micro_batch) & state) != 0; }
  int& arrived(ActionKind loss, int micro_batch) {
    return arrived_[at_index(static_cast<int>(loss) - static_cast<int>(ActionKind::loss)) *
                        at_index(schedule_.micro_batches) +
                    at_index(micro_batch)];
  }
  bool all_arrived(ActionKind loss, int micro_batch) { return arrived(loss, micro_batch) == added_.loss_rank_count; }

  void wake(int rank) {
    if (queued_[at_index(rank)]) return;
    queued_[at_index(rank)] = true;
    queue_.push_back(rank);
  }

  void advance(int rank, const Visit& visit) {
    const std::vector<Action>& list = schedule_.ranks[at_index(rank)];
    int& next = walk_.reached[at_index(rank)];
    while (next < static_cast<int>(list.size())) {
      const int end = end_of_overlap(list, next);
      for (int i = next; i < end; ++i) {
        if (const std::optional<Action> missing = missing_input(rank, list[at_index(i)])) {
          walk_.waits_for[at_index(rank)] = *missing;
          return;
        }
      }
      if (visit) visit(rank, next, end);
      for (int i = next; i < end; ++i) finish(rank, list[at_index(i)]);
      next = end;
    }
  }

  std::optional<Action> missing_input(int rank, const Action& action) {
    const int s = action.stage;
    const int i = action.micro_batch;
    const int last = schedule_.stages() - 1;
    const bool forward_known = known(s, i, forward_done);
    switch (action.kind) {
      case ActionKind::forward:
        if (s > 0 && !known(s - 1, i, forward_arrived)) return from(s - 1, s, ActionKind::forward, i);
        break;
      case ActionKind::backward:
      case ActionKind::backward_input:
        if (!forward_known) return Action{ActionKind::forward, s, i};
        if (known(s, i, offloaded)) return Action{ActionKind::load, s, i};
        if (s == last && added_.loss_rank_count > 0) return missing_ranks(added_.end_of_loss, i);
        if (s < last && !known(s + 1, i, backward_arrived)) return from(s + 1, s, ActionKind::backward, i);
        break;
      case ActionKind::backward_weight:
        if (!known(s, i, backward_done)) return Action{ActionKind::backward_input, s, i};
        break;
      case ActionKind::recompute:
      case ActionKind::offload:
        if (!forward_known) return Action{ActionKind::forward, s, i};
        break;
      case ActionKind::load:
        if (!known(s, i, offloaded)) return Action{ActionKind::offload, s, i};
        break;
      case ActionKind::loss:
        return missing_at_loss(rank, i);
      case ActionKind::loss_broadcast:
        return missing_output(rank, i);
      case ActionKind::loss_sums:
        if (!has_broadcast_[at_index(i)]) return Action{ActionKind::loss_broadcast, last, i};
        break;
      case ActionKind::loss_gradient:
        return missing_ranks(ActionKind::loss_sums, i);
      default:
        break;
    }
    return std::nullopt;
  }

  /// The action that hands a stage's result to its neighbour: the send if the lists have messages between their ranks,
  /// else the computation.
  Action from(int stage, int neighbour, ActionKind kind, int micro_batch) const {
    if (added_.messages && schedule_.rank_at(stage, micro_batch) != schedule_.rank_at(neighbour, micro_batch)) {
      kind = kind == ActionKind::forward ? ActionKind::send_forward : ActionKind::send_backward;
    }
    return {kind, stage, micro_batch};
  }

  /// On the last stage's rank, its output must be available.
  std::optional<Action> missing_output(int rank, int micro_batch) {
    const int last = schedule_.stages() - 1;
    if (rank != schedule_.rank_at(last, micro_batch) || known(last, micro_batch, forward_done)) return std::nullopt;
    return Action{ActionKind::forward, last, micro_batch};
  }
  std::optional<Action> missing_ranks(ActionKind loss, int micro_batch) {
    if (all_arrived(loss, micro_batch)) return std::nullopt;
    return Action{loss, schedule_.stages() - 1, micro_batch};
  }

  /// A rank arrives at an H once, when it first reaches it.
  std::optional<Action> missing_at_loss(int rank, int micro_batch) {
    if (const std::optional<Action> missing = missing_output(rank, micro_batch)) return missing;
    if (arrived_at_[at_index(rank)] != micro_batch) {
      arrived_at_[at_index(rank)] = micro_batch;
      arrive(rank, ActionKind::loss, micro_batch);
    }
    return missing_ranks(ActionKind::loss, micro_batch);
  }

  void arrive(int rank, ActionKind loss, int micro_batch) {
    if (++arrived(loss, micro_batch) == added_.loss_rank_count) wake_others(rank);
  }
  void broadcast(int rank, int micro_batch) {
    has_broadcast_[at_index(micro_batch)] = true;
    wake_others(rank);
  }
  void wake_others(int rank) {
    for (int other = 0; other < schedule_.size(); ++other)
      if (other != rank) wake(other);
  }

  void finish(int rank, const Action& action) {
    const int s = action.stage;
    const int i = action.micro_batch;
    if (action.kind == ActionKind::forward) {
      states_(s, i) |= forward_done;
      if (s + 1 < schedule_.stages() && (!added_.messages || schedule_.rank_at(s + 1, i) == rank))
        deliver_forward(s, i);
    } else if (is_backward(action.kind)) {
      states_(s, i) |= backward_done;
      if (s > 0 && (!added_.messages || schedule_.rank_at(s - 1, i) == rank)) deliver_backward(s, i);
    } else if (action.kind == ActionKind::loss_broadcast) {
      if (schedule_.rank_at(s, i) == rank) broadcast(rank, i);
    } else if (action.kind == ActionKind::loss_sums || action.kind == ActionKind::loss_gradient) {
      arrive(rank, action.kind, i);
    } else if (action.kind == ActionKind::offload) {
      states_(s, i) |= offloaded;
    } else if (action.kind == ActionKind::load) {
      states_(s, i) &= static_cast<unsigned char>(~offloaded);
    } else if (action.kind == ActionKind::send_forward) {
      deliver_forward(s, i);
    } else if (action.kind == ActionKind::send_backward) {
      deliver_backward(s, i);
    }
  }

  void deliver_forward(int stage, int micro_batch) {
    states_(stage, micro_batch) |= forward_arrived;
    wake(schedule_.rank_at(stage + 1, micro_batch));
  }
  void deliver_backward(int stage, int micro_batch) {
    states_(stage, micro_batch) |= backward_arrived;
    wake(schedule_.rank_at(stage - 1, micro_batch));
  }

  const Schedule& schedule_;
  PerCell<unsigned char> states_;
  std::vector<bool> has_broadcast_;  // for each micro-batch, whether the rank that has its output has taken J
  std::vector<int> arrived_;         // at each H, S and T: how many ranks
  std::vector<int> arrived_at_;      // for each rank, the H at which it arrived last
  std::vector<int> queue_;           // ranks that can continue
  std::vector<bool> queued_;
  Additions added_;
  Walk walk_;
};

}  // namespace

Additions additions(const Schedule& schedule) {
  Additions found;
  std::array<std::vector<int>, 2> loss_ranks;  // of each copy
  for (int rank = 0; rank < schedule.size(); ++rank)
    for (const Action& action : schedule.ranks[at_index(rank)]) {
      found.messages = found.messages || is_message(action.kind);
      if (!is_loss(action.kind)) continue;
      found.loss_in_parts = found.loss_in_parts || is_part_of_loss(action.kind);
      std::vector<int>& ranks = loss_ranks[schedule.copy_of(action.micro_batch) == 0 ? 0 : 1];
      if (ranks.empty() || ranks.back() != rank) ranks.push_back(rank);
    }
  if (found.loss_in_parts)
    found.end_of_loss = schedule.has_loss_in_one_exchange ? ActionKind::loss_sums : ActionKind::loss_gradient;
  for (const std::vector<int>& ranks : loss_ranks)
    found.loss_rank_count = std::max(found.loss_rank_count, static_cast<int>(ranks.size()));
  return found;
}

std::optional<int> receiver_stage(const Schedule& schedule, const Action& action) {
  if (action.kind != ActionKind::forward && !is_backward(action.kind)) return std::nullopt;
  const int to = action.kind == ActionKind::forward ? action.stage + 1 : action.stage - 1;
  if (to < 0 || to == schedule.stages()) return std::nullopt;
  const auto rank = [&](int stage) { return schedule.rank_at(stage, action.micro_batch); };
  return rank(to) == rank(action.stage) ? std::nullopt : std::optional(to);
}

int end_of_overlap(const std::vector<Action>& list, int first) {
  auto last = at_index(first);
  while (last + 1 < list.size() && list[last].overlaps_next) ++last;
  return static_cast<int>(last) + 1;
}

bool Walk::complete(const Schedule& schedule) const {
  return std::equal(reached.begin(), reached.end(), schedule.ranks.begin(), schedule.ranks.end(),
                    [](int count, const std::vector<Action>& list) { return count == static_cast<int>(list.size()); });
}

Walk walk(const Schedule& schedule, const Visit& visit) {
  return Walker(schedule).run(visit);
}

}  // namespace heddle
