#include "parallel/pipeline/list_checker.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "parallel/pipeline/dependencies.h"

namespace heddle {
namespace {

/// Checks each rank's list by itself: which cells there are, and that a rank's own inputs come first.
class ListChecker {
 public:
  explicit ListChecker(const Schedule& schedule)
      : schedule_(schedule), seen_(schedule), trains_(!is_forward_only(schedule)), added_(additions(schedule)) {
    stages_of_.resize(schedule.ranks.size());
    for (int copy = 0; copy < schedule.copies(); ++copy)
      for (int stage = 0; stage < schedule.stages(); ++stage)
        stages_of_[at_index(schedule.ranks_of_copy(copy)[at_index(stage)])].push_back(stage);
  }

  std::optional<ScheduleFault> check(int rank) {
    const std::vector<Action>& list = schedule_.ranks[at_index(rank)];
    losses_.assign(at_index(schedule_.micro_batches), 0);
    for (int first = 0; first < static_cast<int>(list.size());) {
      const int end = end_of_overlap(list, first);
      std::string why = wrong_overlap(list, first, end);
      if (!why.empty()) return ScheduleFault{rank, first, described(list[at_index(first)], why)};
      for (int i = first; i < end; ++i) {
        const Action& action = list[at_index(i)];
        why = wrong_cell(rank, action);
        if (why.empty()) why = wrong_place(rank, action);
        if (!why.empty()) return ScheduleFault{rank, i, described(action, why)};
      }
      for (int i = first; i < end; ++i) remember(list[at_index(i)]);
      first = end;
    }
    if (const std::optional<Action> action = missing(rank)) {
      return ScheduleFault{rank, static_cast<int>(list.size()), described(*action, "is missing")};
    }
    return std::nullopt;
  }

 private:
  static std::uint16_t bit(ActionKind kind) { return static_cast<std::uint16_t>(1U << static_cast<unsigned>(kind)); }
  static std::string described(const Action& action, const std::string& why) {
    return fmt::format("{}: {}", to_string(action), why);
  }
  int rank_at(int stage, int micro_batch) const { return schedule_.rank_at(stage, micro_batch); }
  int last() const { return schedule_.stages() - 1; }
  bool has(ActionKind kind, int stage, int micro_batch) { return (seen_(stage, micro_batch) & bit(kind)) != 0; }
  bool has_backward(int stage, int micro_batch) {
    return has(ActionKind::backward, stage, micro_batch) || has(ActionKind::backward_input, stage, micro_batch);
  }

  bool has_loss(ActionKind kind, int micro_batch) const { return (losses_[at_index(micro_batch)] & bit(kind)) != 0; }

  static std::string wrong_overlap(const std::vector<Action>& list, int first, int end) {
    if (list[at_index(end) - 1].overlaps_next) return "overlaps the next action, but there is none";
    if (end - first == 1) return {};
    const auto is_pair = [](const Action& a, const Action& b) {
      return a.kind == ActionKind::forward && is_backward(b.kind) &&
             !(a.stage == b.stage && a.micro_batch == b.micro_batch);
    };
    const Action& a = list[at_index(first)];
    const Action& b = list[at_index(first) + 1];
    if (end - first == 2 && (is_pair(a, b) || is_pair(b, a))) return {};
    return "overlaps, but the pair is not one forward and one backward of different cells";
  }

  /// Checks that such a cell exists, belongs to this rank and has not come before.
  std::string wrong_cell(int rank, const Action& action) {
    const auto [kind, stage, micro_batch, overlaps] = action;
    if (stage < 0 || stage > last()) return fmt::format("there are {} stages", schedule_.stages());
    if (micro_batch < 0 || micro_batch >= schedule_.micro_batches) {
      return fmt::format("there are {} micro-batches", schedule_.micro_batches);
    }
    if (is_loss(kind)) {
      if (stage != last()) return fmt::format("the loss follows the last stage, {}", last());
      if (kind == ActionKind::loss && added_.loss_in_parts) return "in addition to J, S and T";
      return has_loss(kind, micro_batch) ? "appears twice" : "";
    }
    if (const int owner = rank_at(stage, micro_batch); owner != rank)
      return fmt::format("stage {} is on rank {}{}", stage, owner,
                         schedule_.copies() == 1 ? "" : " for this micro-batch");
    if (has(kind, stage, micro_batch)) return "appears twice";
    const bool whole = has(ActionKind::backward, stage, micro_batch);
    const bool parts = has(ActionKind::backward_input, stage, micro_batch);
    if (kind == ActionKind::backward && parts) {
      return fmt::format("in addition to {}", to_string({ActionKind::backward_input, stage, micro_batch}));
    }
    if ((kind == ActionKind::backward_input || kind == ActionKind::backward_weight) && whole) {
      return fmt::format("in addition to {}", to_string({ActionKind::backward, stage, micro_batch}));
    }
    for (const auto& [one, other] :
         {std::pair(ActionKind::recompute, ActionKind::offload), std::pair(ActionKind::offload, ActionKind::recompute)})
      if (kind == one && has(other, stage, micro_batch))
        return fmt::format("in addition to {}", to_string({other, stage, micro_batch}));
    return {};
  }

  /// Checks that what the cell needs from this rank comes first.
  std::string wrong_place(int rank, const Action& action) {
    const auto [kind, stage, micro_batch, overlaps] = action;
    switch (kind) {
      case ActionKind::forward:
        return stage == 0 ? "" : wrong_input(ActionKind::forward, ActionKind::recv_forward, rank, stage - 1, action);
      case ActionKind::backward:
      case ActionKind::backward_input:
        if (!has(ActionKind::forward, stage, micro_batch)) return before({ActionKind::forward, stage, micro_batch});
        if (has(ActionKind::offload, stage, micro_batch) && !has(ActionKind::load, stage, micro_batch))
          return before({ActionKind::load, stage, micro_batch});
        if (stage < last())
          return wrong_input(ActionKind::backward, ActionKind::recv_backward, rank, stage + 1, action);
        return added_.loss_rank_count > 0 ? after_loss(added_.end_of_loss, action) : "";
      case ActionKind::backward_weight:
        if (has(ActionKind::backward_input, stage, micro_batch)) return {};
        return before({ActionKind::backward_input, stage, micro_batch});
      case ActionKind::recompute:
      case ActionKind::offload:
        if (has_backward(stage, micro_batch)) return "after its backward";
        if (has(ActionKind::forward, stage, micro_batch)) return {};
        return before({ActionKind::forward, stage, micro_batch});
      case ActionKind::load:
        if (has(ActionKind::offload, stage, micro_batch)) return {};
        return before({ActionKind::offload, stage, micro_batch});
      case ActionKind::loss_sums:
        return after_loss(ActionKind::loss_broadcast, action);
      case ActionKind::loss_gradient:
        return after_loss(ActionKind::loss_sums, action);
      case ActionKind::loss:
      case ActionKind::loss_broadcast:
        if (rank != rank_at(last(), micro_batch) || has(ActionKind::forward, stage, micro_batch)) return {};
        return before({ActionKind::forward, stage, micro_batch});
      default:
        return wrong_message(rank, action);
    }
  }

  std::string after_loss(ActionKind loss, const Action& action) {
    return has_loss(loss, action.micro_batch) ? "" : before({loss, action.stage, action.micro_batch});
  }

  /// Checks the input from a neighbouring stage, which this rank computes or receives.
  std::string wrong_input(ActionKind computed, ActionKind received, int rank, int from, const Action& action) {
    const int micro_batch = action.micro_batch;
    if (rank_at(from, micro_batch) == rank) {
      const bool has_arrived = computed == ActionKind::forward ? has(ActionKind::forward, from, micro_batch)
                                                               : has_backward(from, micro_batch);
      return has_arrived ? "" : before({computed, from, micro_batch});
    }
    if (!added_.messages || has(received, action.stage, micro_batch)) return {};
    return before({received, action.stage, micro_batch});
  }

  std::string wrong_message(int rank, const Action& action) {
    const auto [kind, stage, micro_batch, overlaps] = action;
    const bool up = kind == ActionKind::send_forward || kind == ActionKind::recv_backward;
    const int other = up ? stage + 1 : stage - 1;
    if (other < 0 || other > last()) return fmt::format("there is no stage {}", other);
    if (rank_at(other, micro_batch) == rank) return fmt::format("stage {} is on the same rank", other);
    if (kind == ActionKind::send_forward && !has(ActionKind::forward, stage, micro_batch)) {
      return before({ActionKind::forward, stage, micro_batch});
    }
    if (kind == ActionKind::send_backward && !has_backward(stage, micro_batch)) {
      return before({ActionKind::backward, stage, micro_batch});
    }
    return {};
  }

  static std::string before(const Action& input) { return fmt::format("before its input {}", to_string(input)); }

  void remember(const Action& action) {
    if (is_loss(action.kind)) {
      losses_[at_index(action.micro_batch)] |= bit(action.kind);
    } else {
      seen_(action) |= bit(action.kind);
    }
  }

  /// The cell that is missing in the rank's list.
  std::optional<Action> missing(int rank) {
    for (int i = 0; added_.loss_rank_count > 0 && i < schedule_.micro_batches; ++i) {
      if (!added_.loss_in_parts && added_.loss_rank_count == 1 && rank != rank_at(last(), i)) continue;
      if (!added_.loss_in_parts && !has_loss(ActionKind::loss, i)) return Action{ActionKind::loss, last(), i};
      for (const ActionKind part : {ActionKind::loss_broadcast, ActionKind::loss_sums, ActionKind::loss_gradient})
        if (added_.loss_in_parts && !has_loss(part, i)) return Action{part, last(), i};
    }
    for (const int stage : stages_of_[at_index(rank)]) {
      for (int i = 0; i < schedule_.micro_batches; ++i) {
        if (rank_at(stage, i) != rank) continue;
        if (!has(ActionKind::forward, stage, i)) return Action{ActionKind::forward, stage, i};
        if (trains_ && !has_backward(stage, i)) return Action{ActionKind::backward, stage, i};
        if (has(ActionKind::backward_input, stage, i) && !has(ActionKind::backward_weight, stage, i)) {
          return Action{ActionKind::backward_weight, stage, i};
        }
        if (!added_.messages) continue;
        if (stage < last() && rank_at(stage + 1, i) != rank && !has(ActionKind::send_forward, stage, i)) {
          return Action{ActionKind::send_forward, stage, i};
        }
        if (trains_ && stage > 0 && rank_at(stage - 1, i) != rank && !has(ActionKind::send_backward, stage, i)) {
          return Action{ActionKind::send_backward, stage, i};
        }
      }
    }
    return std::nullopt;
  }

  const Schedule& schedule_;
  PerCell<std::uint16_t> seen_;  // the kinds that each cell has
  bool trains_;
  Additions added_;
  std::vector<std::uint16_t> losses_;  // the kinds of the loss that the rank being checked has for each micro-batch
  std::vector<std::vector<int>> stages_of_;
};

}  // namespace

std::optional<ScheduleFault> fault_within_a_list(const Schedule& schedule) {
  ListChecker lists(schedule);
  for (int rank = 0; rank < schedule.size(); ++rank)
    if (auto fault = lists.check(rank)) return fault;
  return std::nullopt;
}

}  // namespace heddle
