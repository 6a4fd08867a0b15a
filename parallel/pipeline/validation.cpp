#include "parallel/pipeline/validation.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/list_checker.h"

namespace heddle {
namespace {

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
    for (const Action& action : schedule.ranks[at_index(rank)]) {
      if (is_send(action.kind)) sent[{rank, other_rank(action)}].push_back(action);
    }
  }
  std::map<std::pair<int, int>, std::size_t> taken;
  for (int rank = 0; rank < schedule.size(); ++rank) {
    const std::vector<Action>& list = schedule.ranks[at_index(rank)];
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const Action& action = list[at_index(i)];
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

/// Checks that all ranks take the parts of the loss in the order of rank 0, in which their messages come.
std::optional<ScheduleFault> wrong_order_of_loss(const Schedule& schedule) {
  std::vector<Action> order;
  for (const Action& action : schedule.ranks.front())
    if (is_part_of_loss(action.kind)) order.push_back(action);
  if (order.empty()) return std::nullopt;  // then no rank has any
  for (int rank = 1; rank < schedule.size(); ++rank) {
    const std::vector<Action>& list = schedule.ranks[at_index(rank)];
    std::size_t place = 0;
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      if (!is_part_of_loss(list[at_index(i)].kind)) continue;
      const Action& expected = order[place++];
      if (list[at_index(i)] == expected) continue;
      return ScheduleFault{rank, i,
                           fmt::format("{}: rank 0 takes {} first", to_string(list[at_index(i)]), to_string(expected))};
    }
  }
  return std::nullopt;
}

/// Checks for ranks that wait for each other, and names each with its cell. Each list is valid by itself.
ScheduleFault deadlock(const Schedule& schedule, const Walk& walked) {
  const auto waits_in_loss = [&](int rank, const Action& loss) {
    const int next = walked.reached[at_index(rank)];
    if (next == static_cast<int>(schedule.ranks[at_index(rank)].size())) return false;
    return loss.kind == ActionKind::loss && schedule.ranks[at_index(rank)][at_index(next)] == loss;
  };
  const auto has_done = [&](int rank, const Action& action) {
    const std::vector<Action>& list = schedule.ranks[at_index(rank)];
    const auto end = list.begin() + walked.reached[at_index(rank)];
    return std::find(list.begin(), end, action) != end;
  };
  const auto waited_for = [&](int rank) {
    const Action& action = walked.waits_for[at_index(rank)];
    if (!is_loss(action.kind)) return schedule.rank_at(action.stage, action.micro_batch);
    int other = 0;
    while (waits_in_loss(other, action) || has_done(other, action)) ++other;
    return other;
  };

  int rank = 0;
  while (walked.reached[at_index(rank)] == static_cast<int>(schedule.ranks[at_index(rank)].size())) ++rank;
  std::vector<bool> met(schedule.ranks.size());
  for (; !met[at_index(rank)]; rank = waited_for(rank)) met[at_index(rank)] = true;
  std::vector<int> ranks;
  for (const int start = rank; ranks.empty() || rank != start; rank = waited_for(rank)) ranks.push_back(rank);
  std::rotate(ranks.begin(), std::min_element(ranks.begin(), ranks.end()), ranks.end());

  const auto cell = [&](int r) { return schedule.ranks[at_index(r)][at_index(walked.reached[at_index(r)])]; };
  std::string why = fmt::format("{}: deadlock:", to_string(cell(ranks.front())));
  constexpr std::size_t max_named = 8;
  for (std::size_t i = 0; i < std::min(ranks.size(), max_named); ++i) {
    why += fmt::format("{} rank {} waits in {} for {}", i == 0 ? "" : ",", ranks[i], to_string(cell(ranks[i])),
                       to_string(walked.waits_for[at_index(ranks[i])]));
  }
  if (ranks.size() > max_named) why += fmt::format(", and {} more", ranks.size() - max_named);
  return {ranks.front(), walked.reached[at_index(ranks.front())], why};
}

/// Checks that every stage is on a rank, and that a second copy is the mirror image of the first.
std::optional<ScheduleFault> wrong_rank_of_stage(const Schedule& schedule) {
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const int rank = schedule.rank_of[at_index(stage)];
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
    const int expected = schedule.size() - 1 - schedule.rank_of[at_index(stage)];
    if (const int rank = schedule.second_rank_of[at_index(stage)]; rank != expected)
      return ScheduleFault{0, 0,
                           fmt::format("the second copy of stage {} is on rank {}, expected rank {}, the mirror "
                                       "image of rank {}",
                                       stage, rank, expected, schedule.rank_of[at_index(stage)])};
  }
  return std::nullopt;
}

std::optional<ScheduleFault> fault_of_lists(const Schedule& schedule) {
  if (auto fault = wrong_rank_of_stage(schedule)) return fault;
  if (schedule.stages() == 0 || schedule.micro_batches < 1) return ScheduleFault{0, 0, "there is nothing to compute"};
  if (auto fault = fault_within_a_list(schedule)) return fault;
  if (auto fault = wrong_order_of_loss(schedule)) return fault;
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
    const std::vector<Action>& list = schedule.ranks[at_index(rank)];
    const int size = static_cast<int>(list.size());
    std::string row = fmt::format("rank {:<4}{}", rank, first > 0 ? ".. " : "");
    for (int i = first; i < std::min(size, fault.index + cells_around + 1) || (rank == fault.rank && i <= fault.index);
         ++i) {
      const std::string cell = i < size ? to_string(list[at_index(i)]) : "";
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
