#include "parallel/pipeline/passes/passes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/passes/rewriting.h"

namespace heddle {
namespace {

Action sent(const Action& action) {
  const bool forward = action.kind == ActionKind::forward;
  return {forward ? ActionKind::send_forward : ActionKind::send_backward, action.stage, action.micro_batch};
}

Action received(const Action& action, int stage) {
  const bool forward = action.kind == ActionKind::forward;
  return {forward ? ActionKind::recv_forward : ActionKind::recv_backward, stage, action.micro_batch};
}

/// All messages of a schedule, those of each pair of ranks in the order of the sends.
class MessageOrder {
 public:
  explicit MessageOrder(const Schedule& schedule)
      : schedule_(schedule), sent_(schedule.ranks.size()), forward_place_(schedule), backward_place_(schedule) {
    for (int rank = 0; rank < schedule.size(); ++rank) {
      for (const Action& action : schedule.ranks[at_index(rank)]) {
        const std::optional<int> to = receiver_stage(schedule, action);
        if (!to) continue;
        std::vector<Action>& messages = sent_[at_index(rank)][schedule.rank_at(*to, action.micro_batch)];
        (action.kind == ActionKind::forward ? forward_place_ : backward_place_)(*to, action.micro_batch) =
            messages.size();
        messages.push_back(received(action, *to));
      }
    }
  }

  /// Appends the receive of the message that `action` needs from another rank, and of all messages that its sender has
  /// sent before it. `taken` counts the messages that a rank has received from each other rank.
  void receive_for(int rank, const Action& action, std::map<int, std::size_t>& taken,
                   std::vector<Action>& result) const {
    if (action.kind != ActionKind::forward && !is_backward(action.kind)) return;
    const int from = action.kind == ActionKind::forward ? action.stage - 1 : action.stage + 1;
    if (from < 0 || from == schedule_.stages()) return;
    const int sender = schedule_.rank_at(from, action.micro_batch);
    if (sender == rank) return;
    const std::vector<Action>& messages = sent_[at_index(sender)].at(rank);
    const std::size_t last = (action.kind == ActionKind::forward ? forward_place_ : backward_place_)(action);
    for (std::size_t& next = taken[sender]; next <= last; ++next) result.push_back(messages[next]);
  }

 private:
  const Schedule& schedule_;
  std::vector<std::map<int, std::vector<Action>>> sent_;  // sender, receiver
  // The place of a stage's message among those of its pair.
  PerCell<std::size_t> forward_place_;
  PerCell<std::size_t> backward_place_;
};

}  // namespace

Schedule with_recompute(Schedule schedule, Recompute mode) {
  if (mode == Recompute::never || mode == Recompute::sqrt) return schedule;
  const int recomputed = schedule.micro_batches - (mode == Recompute::except_last ? 1 : 0);
  for (std::vector<Action>& list : schedule.ranks) {
    list = rewritten(list, [&](int first, int end, std::vector<Action>& result) {
      for (int i = first; i < end; ++i) {
        const Action& action = list[at_index(i)];
        if (!is_backward(action.kind) || action.micro_batch >= recomputed) continue;
        result.push_back({ActionKind::recompute, action.stage, action.micro_batch});
      }
      append(result, list, first, end);
    });
  }
  return schedule;
}

Schedule with_communication(Schedule schedule, Receives receives) {
  const MessageOrder order(schedule);
  std::vector<std::vector<Action>> ranks;
  for (int rank = 0; rank < schedule.size(); ++rank) {
    std::map<int, std::size_t> taken;
    const std::vector<Action>& list = schedule.ranks[at_index(rank)];
    const auto receive_for = [&](int first, int end, std::vector<Action>& result) {
      for (int i = first; i < end; ++i) order.receive_for(rank, list[at_index(i)], taken, result);
    };
    ranks.push_back(rewritten(list, [&](int first, int end, std::vector<Action>& result) {
      receive_for(first, end, result);
      const auto next =
          std::find_if(list.begin() + end, list.end(), [](const Action& a) { return !is_offload_or_load(a.kind); });
      if (receives == Receives::early && next != list.end()) {
        const auto begin = static_cast<int>(next - list.begin());
        receive_for(begin, end_of_overlap(list, begin), result);
      }
      append(result, list, first, end);
      for (int i = first; i < end; ++i) {
        const Action& action = list[at_index(i)];
        if (receiver_stage(schedule, action)) result.push_back(sent(action));
      }
    }));
  }
  schedule.ranks = std::move(ranks);
  return schedule;
}

}  // namespace heddle
