#include "parallel/pipeline/validation.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"

namespace heddle {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

constexpr std::uint16_t bit(ActionKind kind) {
  return static_cast<std::uint16_t>(1U << static_cast<unsigned>(kind));
}

/// Checks each rank's list by itself: which cells there are, and that a rank's own inputs come first.
class ListChecker {
 public:
  explicit ListChecker(const Schedule& schedule)
      : schedule_(schedule),
        seen_(schedule.rank_of.size() * at(schedule.micro_batches)),
        trains_(!is_forward_only(schedule)),
        added_(additions(schedule)) {
    stages_of_.resize(schedule.ranks.size());
    for (int copy = 0; copy < schedule.copies(); ++copy)
      for (int stage = 0; stage < schedule.stages(); ++stage)
        stages_of_[at(schedule.ranks_of_copy(copy)[at(stage)])].push_back(stage);
  }

  std::optional<ScheduleFault> check(int rank) {
    const std::vector<Action>& list = schedule_.ranks[at(rank)];
    losses_.assign(at(schedule_.micro_batches), false);
    for (int first = 0; first < static_cast<int>(list.size());) {
      const int end = end_of_overlap(list, first);
      std::string why = wrong_overlap(list, first, end);
      if (!why.empty()) return ScheduleFault{rank, first, described(list[at(first)], why)};
      for (int i = first; i < end; ++i) {
        const Action& action = list[at(i)];
        why = wrong_cell(rank, action);
        if (why.empty()) why = wrong_place(rank, action);
        if (!why.empty()) return ScheduleFault{rank, i, described(action, why)};
      }
      for (int i = first; i < end; ++i) remember(list[at(i)]);
      first = end;
    }
    if (const std::optional<Action> action = missing(rank)) {
      return ScheduleFault{rank, static_cast<int>(list.size()), described(*action, "is missing")};
    }
    return std::nullopt;
  }

 private:
  static std::string described(const Action& action, const std::string& why) {
    return fmt::format("{}: {}", to_string(action), why);
  }
  int rank_at(int stage, int micro_batch) const { return schedule_.rank_at(stage, micro_batch); }
  int last() const { return schedule_.stages() - 1; }
  std::uint16_t& seen(int stage, int micro_batch) {
    return seen_[at(stage) * at(schedule_.micro_batches) + at(micro_batch)];
  }
  bool has(ActionKind kind, int stage, int micro_batch) { return (seen(stage, micro_batch) & bit(kind)) != 0; }
  bool has_backward(int stage, int micro_batch) {
    return has(ActionKind::backward, stage, micro_batch) || has(ActionKind::backward_input, stage, micro_batch);
  }

  static std::string wrong_overlap(const std::vector<Action>& list, int first, int end) {
    if (list[at(end) - 1].overlaps_next) return "overlaps the next action, but there is none";
    if (end - first == 1) return {};
    const auto is_pair = [](const Action& a, const Action& b) {
      return a.kind == ActionKind::forward && is_backward(b.kind) &&
             !(a.stage == b.stage && a.micro_batch == b.micro_batch);
    };
    const Action& a = list[at(first)];
    const Action& b = list[at(first) + 1];
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
    if (kind == ActionKind::loss) {
      if (stage != last()) return fmt::format("the loss follows the last stage, {}", last());
      return losses_[at(micro_batch)] ? "appears twice" : "";
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
        return stage == 0 ? "" : not_there(ActionKind::forward, ActionKind::recv_forward, rank, stage - 1, action);
      case ActionKind::backward:
      case ActionKind::backward_input:
        if (!has(ActionKind::forward, stage, micro_batch)) return before({ActionKind::forward, stage, micro_batch});
        if (has(ActionKind::offload, stage, micro_batch) && !has(ActionKind::load, stage, micro_batch))
          return before({ActionKind::load, stage, micro_batch});
        if (stage < last()) return not_there(ActionKind::backward, ActionKind::recv_backward, rank, stage + 1, action);
        if (added_.loss_ranks > 0 && !losses_[at(micro_batch)]) return before({ActionKind::loss, stage, micro_batch});
        return {};
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
      case ActionKind::loss:
        if (rank != rank_at(last(), micro_batch) || has(ActionKind::forward, stage, micro_batch)) return {};
        return before({ActionKind::forward, stage, micro_batch});
      default:
        return wrong_message(rank, action);
    }
  }

  /// Checks the input from a neighbouring stage, which this rank computes or receives.
  std::string not_there(ActionKind computed, ActionKind received, int rank, int from, const Action& action) {
    const int micro_batch = action.micro_batch;
    if (rank_at(from, micro_batch) == rank) {
      const bool there = computed == ActionKind::forward ? has(ActionKind::forward, from, micro_batch)
                                                         : has_backward(from, micro_batch);
      return there ? "" : before({computed, from, micro_batch});
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
    if (action.kind == ActionKind::loss) {
      losses_[at(action.micro_batch)] = true;
    } else {
      seen(action.stage, action.micro_batch) |= bit(action.kind);
    }
  }

  /// The cell that is missing in the rank's list.
  std::optional<Action> missing(int rank) {
    for (int i = 0; added_.loss_ranks > 0 && i < schedule_.micro_batches; ++i) {
      const bool has_loss = added_.loss_ranks > 1 || rank == rank_at(last(), i);
      if (has_loss && !losses_[at(i)]) return Action{ActionKind::loss, last(), i};
    }
    for (const int stage : stages_of_[at(rank)]) {
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
  std::vector<std::uint16_t> seen_;  // the kinds that each cell has
  bool trains_;
  Additions added_;
  std::vector<bool> losses_;  // the losses of the rank being checked
  std::vector<std::vector<int>> stages_of_;
};

/// The neighbouring stage that a message goes to, or comes from.
int other_stage(const Action& message) {
  const bool up = message.kind == ActionKind::send_forward || message.kind == ActionKind::recv_backward;
  return up ? message.stage + 1 : message.stage - 1;
}

/// Checks that each receive matches the next send of its pair of ranks.
std::optional<ScheduleFault> wrong_order_of_messages(const Schedule& schedule) {
  std::map<std::pair<int, int>, std::vector<Action>> sent;  // keyed by sender and receiver
  const auto other_rank = [&](const Action& message) {
    return schedule.rank_at(other_stage(message), message.micro_batch);
  };
  for (int rank = 0; rank < schedule.size(); ++rank) {
    for (const Action& action : schedule.ranks[at(rank)]) {
      if (is_send(action.kind)) sent[{rank, other_rank(action)}].push_back(action);
    }
  }
  std::map<std::pair<int, int>, std::size_t> taken;
  for (int rank = 0; rank < schedule.size(); ++rank) {
    const std::vector<Action>& list = schedule.ranks[at(rank)];
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const Action& action = list[at(i)];
      if (!is_message(action.kind) || is_send(action.kind)) continue;
      const ActionKind kind =
          action.kind == ActionKind::recv_forward ? ActionKind::send_forward : ActionKind::send_backward;
      const std::pair<int, int> pair{other_rank(action), rank};
      const std::vector<Action>& messages = sent[pair];
      const std::size_t place = taken[pair]++;
      const Action wanted{kind, other_stage(action), action.micro_batch};
      if (place >= messages.size()) {
        return ScheduleFault{rank, i, fmt::format("{}: no rank sends it", to_string(action))};
      }
      const Action& next = messages[place];
      if (next == wanted) continue;
      return ScheduleFault{rank, i,
                           fmt::format("{}: rank {} sends {} first", to_string(action), pair.first, to_string(next))};
    }
  }
  return std::nullopt;
}

/// Checks for ranks that wait for each other, and names each with its cell. Each list is valid by itself.
ScheduleFault deadlock(const Schedule& schedule, const Walk& walked) {
  const auto waits_in_loss = [&](int rank, int micro_batch) {
    const int next = walked.reached[at(rank)];
    if (next == static_cast<int>(schedule.ranks[at(rank)].size())) return false;
    const Action& action = schedule.ranks[at(rank)][at(next)];
    return action.kind == ActionKind::loss && action.micro_batch == micro_batch;
  };
  const auto has_done = [&](int rank, const Action& action) {
    const std::vector<Action>& list = schedule.ranks[at(rank)];
    const auto end = list.begin() + walked.reached[at(rank)];
    return std::find(list.begin(), end, action) != end;
  };
  const auto waited_for = [&](int rank) {
    const Action& action = walked.waits_for[at(rank)];
    if (action.kind != ActionKind::loss) return schedule.rank_at(action.stage, action.micro_batch);
    int other = 0;
    while (waits_in_loss(other, action.micro_batch) || has_done(other, action)) ++other;
    return other;
  };

  int rank = 0;
  while (walked.reached[at(rank)] == static_cast<int>(schedule.ranks[at(rank)].size())) ++rank;
  std::vector<bool> met(schedule.ranks.size());
  for (; !met[at(rank)]; rank = waited_for(rank)) met[at(rank)] = true;
  std::vector<int> ranks;
  for (const int start = rank; ranks.empty() || rank != start; rank = waited_for(rank)) ranks.push_back(rank);
  std::rotate(ranks.begin(), std::min_element(ranks.begin(), ranks.end()), ranks.end());

  const auto cell = [&](int r) { return schedule.ranks[at(r)][at(walked.reached[at(r)])]; };
  std::string why = fmt::format("{}: deadlock:", to_string(cell(ranks.front())));
  constexpr std::size_t max_named = 8;
  for (std::size_t i = 0; i < std::min(ranks.size(), max_named); ++i) {
    why += fmt::format("{} rank {} waits in {} for {}", i == 0 ? "" : ",", ranks[i], to_string(cell(ranks[i])),
                       to_string(walked.waits_for[at(ranks[i])]));
  }
  if (ranks.size() > max_named) why += fmt::format(", and {} more", ranks.size() - max_named);
  return {ranks.front(), walked.reached[at(ranks.front())], why};
}

/// Checks that every stage is on a rank, and that a second copy is the mirror image of the first.
std::optional<ScheduleFault> wrong_rank_of_stage(const Schedule& schedule) {
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const int rank = schedule.rank_of[at(stage)];
    if (rank >= 0 && rank < schedule.size()) continue;
    return ScheduleFault{0, 0, fmt::format("stage {} is on rank {}, there are {} ranks", stage, rank, schedule.size())};
  }
  if (schedule.copies() == 1) return std::nullopt;
  if (schedule.size() % 2 != 0)
    return ScheduleFault{
        0, 0, fmt::format("two copies of each stage need an even number of ranks, there are {}", schedule.size())};
  if (schedule.micro_batches % 2 != 0)
    return ScheduleFault{0, 0,
                         fmt::format("two copies of each stage need an even number of micro-batches, there are {}",
                                     schedule.micro_batches)};
  if (schedule.second_rank_of.size() != schedule.rank_of.size())
    return ScheduleFault{0, 0,
                         fmt::format("the second copy has {} stages, the first one {}", schedule.second_rank_of.size(),
                                     schedule.stages())};
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const int expected = schedule.size() - 1 - schedule.rank_of[at(stage)];
    if (const int rank = schedule.second_rank_of[at(stage)]; rank != expected)
      return ScheduleFault{0, 0,
                           fmt::format("the second copy of stage {} is on rank {}, expected rank {}, the mirror "
                                       "image of rank {}",
                                       stage, rank, expected, schedule.rank_of[at(stage)])};
  }
  return std::nullopt;
}

std::optional<ScheduleFault> fault_of_lists(const Schedule& schedule) {
  if (auto fault = wrong_rank_of_stage(schedule)) return fault;
  if (schedule.stages() == 0 || schedule.micro_batches < 1) return ScheduleFault{0, 0, "there is nothing to compute"};
  ListChecker lists(schedule);
  for (int rank = 0; rank < schedule.size(); ++rank) {
    if (auto fault = lists.check(rank)) return fault;
  }
  return wrong_order_of_messages(schedule);
}

std::optional<ScheduleFault> fault_of_walk(const Schedule& schedule, const Walk& walked) {
  if (walked.complete(schedule)) return std::nullopt;
  return deadlock(schedule, walked);
}

void refuse(const Schedule& schedule, const ScheduleFault& fault, std::string_view name) {
  fail<InputError>("{}: rank {}, cell {}: {}\n{}", name, fault.rank, fault.index + 1, fault.why,
                   draw_around(schedule, fault));
}

}  // namespace

std::optional<ScheduleFault> validate(const Schedule& schedule) {
  if (auto fault = fault_of_lists(schedule)) return fault;
  return fault_of_walk(schedule, walk(schedule));
}

std::string draw_around(const Schedule& schedule, const ScheduleFault& fault) {
  constexpr int ranks_around = 4;
  constexpr int cells_around = 4;
  const int first = std::max(0, fault.index - cells_around);
  std::string text;
  for (int rank = std::max(0, fault.rank - ranks_around);
       rank < std::min(schedule.size(), fault.rank + ranks_around + 1); ++rank) {
    const std::vector<Action>& list = schedule.ranks[at(rank)];
    const int size = static_cast<int>(list.size());
    std::string row = fmt::format("rank {:<4}{}", rank, first > 0 ? ".. " : "");
    for (int i = first; i < std::min(size, fault.index + cells_around + 1) || (rank == fault.rank && i <= fault.index);
         ++i) {
      const std::string cell = i < size ? to_string(list[at(i)]) : "";
      row += fmt::format("{:<9}", rank == fault.rank && i == fault.index ? ">" + cell + "<" : " " + cell);
    }
    if (fault.index + cells_around + 1 < size) row += "..";
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

void check(const Schedule& schedule, std::string_view name) {
  check_lists(schedule, name);
  check_walk(schedule, walk(schedule), name);
}

void check_lists(const Schedule& schedule, std::string_view name) {
  if (const auto fault = fault_of_lists(schedule)) refuse(schedule, *fault, name);
}

void check_walk(const Schedule& schedule, const Walk& walked, std::string_view name) {
  if (const auto fault = fault_of_walk(schedule, walked)) refuse(schedule, *fault, name);
}

}  // namespace heddle
