#include "parallel/pipeline/passes/offload.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {

namespace {

void check_can_offload(const Schedule& schedule) {
  if (is_forward_only(schedule))
    fail<InputError>("offload: expected a schedule with backward: one of forward passes keeps no activations");
  if (has_offload(schedule)) fail<InputError>("offload: expected a schedule without O and L of its own");
  for (const std::vector<Action>& list : schedule.ranks)
    if (std::any_of(list.begin(), list.end(), [](const Action& a) { return a.kind == ActionKind::recompute; }))
      fail<InputError>("offload: expected a schedule without recomputation, which keeps no activations");
}

/// For each stage of each copy, the time from F to B of all micro-batches together, if F, I and W take one unit.
std::vector<double> waits_of_stages(const Schedule& schedule) {
  std::vector<double> waits(at_index(schedule.copies() * schedule.stages()));
  for (const std::vector<TimedAction>& timed : simulate(schedule, {}).timeline.ranks)
    for (const auto& [action, begin, end] : timed) {
      if (action.kind == ActionKind::forward) waits[schedule.stage_index(action.stage, action.micro_batch)] -= end;
      if (is_backward(action.kind)) waits[schedule.stage_index(action.stage, action.micro_batch)] += begin;
    }
  return waits;
}

/// For each stage of each copy, of how many micro-batches one is offloaded; 0: of none.
std::vector<int> shares_of_stages(const Schedule& schedule, Offload mode) {
  std::vector<int> shares(at_index(schedule.copies() * schedule.stages()), mode == Offload::all ? 1 : 0);
  if (mode == Offload::all) return shares;
  const std::vector<double> waits = waits_of_stages(schedule);
  std::vector<std::vector<std::size_t>> stages_of(schedule.ranks.size());
  for (std::size_t stage = 0, copy = 0; copy < at_index(schedule.copies()); ++copy)
    for (const int rank : schedule.ranks_of_copy(static_cast<int>(copy))) stages_of[at_index(rank)].push_back(stage++);
  for (std::vector<std::size_t>& stages : stages_of) {
    std::stable_sort(stages.begin(), stages.end(), [&](std::size_t a, std::size_t b) { return waits[a] > waits[b]; });
    const std::size_t half = stages.size() / 2;
    for (std::size_t i = 0; i < half; ++i) shares[stages[i]] = 1;
    if (stages.size() % 2 == 1) shares[stages[half]] = 2;
  }
  return shares;
}

/// The first action of each group of a list whose actions begin together.
std::vector<int> groups_of(const std::vector<Action>& list) {
  std::vector<int> begins;
  for (int first = 0; first < static_cast<int>(list.size()); first = end_of_overlap(list, first))
    begins.push_back(first);
  return begins;
}

/// The time of the actions [first, end) if F, I and W take one unit.
int units(const std::vector<Action>& list, int first, int end) {
  return std::accumulate(list.begin() + first, list.begin() + end, 0, [](int sum, const Action& action) {
    return sum + (action.kind == ActionKind::backward ? 2 : 1);
  });
}

/// The time that an L has at least, unless it is the first. That of F, I and W, three units, would do as well, but hold
/// more.
constexpr int min_lead = 2;

std::vector<Action> list_with_offload(const Schedule& schedule, const std::vector<Action>& list,
                                      const std::vector<int>& shares) {
  const std::vector<int> begins = groups_of(list);
  const auto groups = begins.size();
  const auto group = [&](std::size_t index) {
    const auto end = index + 1 < groups ? begins[index + 1] : static_cast<int>(list.size());
    return std::vector<Action>(list.begin() + begins[index], list.begin() + end);
  };
  const auto is_chosen = [&](const Action& forward) {
    const int share = shares[schedule.stage_index(forward.stage, forward.micro_batch)];
    return share > 0 && forward.micro_batch % share == 0;
  };
  std::vector<std::vector<Action>> after(groups);       // the O after each group
  std::vector<std::vector<Action>> before(groups);      // the L before each group
  std::map<std::pair<int, int>, std::size_t> forwards;  // keyed by stage and micro-batch
  std::size_t last_backward = groups;                   // none yet
  for (std::size_t index = 0; index < groups; ++index) {
    const std::vector<Action> actions = group(index);
    for (const Action& action : actions) {
      const std::pair cell(action.stage, action.micro_batch);
      if (action.kind == ActionKind::forward && is_chosen(action)) forwards[cell] = index;
      if (!is_backward(action.kind)) continue;
      const auto forward = forwards.find(cell);
      if (forward == forwards.end()) continue;
      std::size_t to = index - 1;
      if (last_backward < groups)
        for (to = last_backward; to > 0 && units(list, begins[to], begins[index]) < min_lead;) --to;
      if (to < forward->second + 2) continue;
      after[forward->second].push_back({ActionKind::offload, action.stage, action.micro_batch});
      before[to].push_back({ActionKind::load, action.stage, action.micro_batch});
    }
    if (std::any_of(actions.begin(), actions.end(), [](const Action& a) { return is_backward(a.kind); }))
      last_backward = index;
  }
  std::vector<Action> result;
  for (std::size_t index = 0; index < groups; ++index)
    for (const std::vector<Action>& actions : {before[index], group(index), after[index]})
      result.insert(result.end(), actions.begin(), actions.end());
  return result;
}

}  // namespace

Schedule with_offload(Schedule schedule, Offload mode) {
  if (mode == Offload::never) return schedule;
  check_can_offload(schedule);
  const std::vector<int> shares = shares_of_stages(schedule, mode);
  for (std::vector<Action>& list : schedule.ranks) list = list_with_offload(schedule, list, shares);
  return schedule;
}

}  // namespace heddle
