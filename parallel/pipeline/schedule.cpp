#include "parallel/pipeline/schedule.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace heddle {

std::string to_string(const Action& action) {
  return fmt::format("{}{}{}", action.stage, name_of(action.kind), action.micro_batch);
}

Schedule empty_schedule(int micro_batches, std::vector<int> rank_of) {
  const int ranks = *std::max_element(rank_of.begin(), rank_of.end()) + 1;
  return {micro_batches, std::move(rank_of), std::vector<std::vector<Action>>(at_index(ranks))};
}

Schedule empty_schedule_of_two_copies(int micro_batches, std::vector<int> rank_of) {
  Schedule schedule = empty_schedule(micro_batches, std::move(rank_of));
  for (const int rank : schedule.rank_of) schedule.second_rank_of.push_back(schedule.size() - 1 - rank);
  return schedule;
}

bool is_forward_only(const Schedule& schedule) {
  return std::all_of(schedule.ranks.begin(), schedule.ranks.end(), [](const std::vector<Action>& actions) {
    return std::all_of(actions.begin(), actions.end(), [](const Action& action) {
      return action.kind == ActionKind::forward || is_message(action.kind);
    });
  });
}

bool has_offload(const Schedule& schedule) {
  return std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [](const std::vector<Action>& actions) {
    return std::any_of(actions.begin(), actions.end(),
                       [](const Action& action) { return is_offload_or_load(action.kind); });
  });
}

std::vector<int> looped_stages(int ranks, int chunks) {
  std::vector<int> rank_of;
  rank_of.reserve(at_index(ranks) * at_index(chunks));
  for (int stage = 0; stage < ranks * chunks; ++stage) rank_of.push_back(stage % ranks);
  return rank_of;
}

std::vector<int> folded_stages(int ranks) {
  return wave_stages(ranks, 2);
}

std::vector<int> wave_stages(int ranks, int chunks) {
  std::vector<int> rank_of;
  rank_of.reserve(at_index(ranks) * at_index(chunks));
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (int i = 0; i < ranks; ++i) rank_of.push_back(chunk % 2 == 0 ? i : ranks - 1 - i);
  return rank_of;
}

}  // namespace heddle
