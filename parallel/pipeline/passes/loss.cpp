#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/passes/loss_in_parts.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/passes/rewriting.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {
namespace {

/// For each rank, the number of actions before the place where all its F are done and no B or I has begun; empty if
/// some rank has no such place.
std::optional<std::vector<int>> between_forward_and_backward(const Schedule& schedule) {
  std::vector<int> places;
  for (const std::vector<Action>& list : schedule.ranks) {
    int place = 0;
    bool backward = false;
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const ActionKind kind = list[at_index(i)].kind;
      backward = backward || is_backward(kind);
      if (kind != ActionKind::forward) continue;
      if (backward || list[at_index(i)].overlaps_next) return std::nullopt;
      place = i + 1;
    }
    places.push_back(place);
  }
  return places;
}

/// When each rank's actions begin and when the last stage's F end, if all of them take one unit.
struct UnitTimes {
  std::vector<std::vector<std::int64_t>> begin;
  std::vector<std::pair<std::int64_t, int>> last_forward;  // end and micro-batch, in order of time
};

UnitTimes unit_times(const Schedule& schedule) {
  const int last = schedule.stages() - 1;
  PerCell<std::int64_t> forward(schedule);
  PerCell<std::int64_t> backward(schedule);
  std::vector<std::int64_t> free(schedule.ranks.size());
  UnitTimes times;
  for (const std::vector<Action>& list : schedule.ranks) times.begin.emplace_back(list.size());
  const Walk walked = walk(schedule, [&](int rank, int first, int end) {
    const std::vector<Action>& list = schedule.ranks[at_index(rank)];
    std::int64_t begin = free[at_index(rank)];
    for (int i = first; i < end; ++i) {
      const Action& action = list[at_index(i)];
      if (action.kind == ActionKind::forward && action.stage > 0) {
        begin = std::max(begin, forward(action.stage - 1, action.micro_batch));
      } else if (is_backward(action.kind) && action.stage < last) {
        begin = std::max(begin, backward(action.stage + 1, action.micro_batch));
      }
    }
    const bool computes = !is_offload_or_load(list[at_index(first)].kind);
    const std::int64_t done = begin + (computes ? end - first : 0);
    for (int i = first; i < end; ++i) {
      const Action& action = list[at_index(i)];
      times.begin[at_index(rank)][at_index(i)] = begin;
      if (action.kind == ActionKind::forward) forward(action) = done;
      if (is_backward(action.kind)) backward(action) = done;
      if (action.kind == ActionKind::forward && action.stage == last) {
        times.last_forward.emplace_back(done, action.micro_batch);
      }
    }
    free[at_index(rank)] = done;
  });
  if (!walked.complete(schedule)) fail<InputError>("with_loss: the schedule cannot be executed");
  std::sort(times.last_forward.begin(), times.last_forward.end());
  return times;
}

/// Adds H to all ranks at the ends of periods. In a period each rank computes at most as many forwards, and as many
/// backwards, as it has stages, and nothing that needs what is computed in the same period, so that between two H all
/// ranks have about equally much work. Empty if micro-batches take longer from one stage to the next than a period:
/// with one stage per rank, a schedule needs 2(p - r) - 1 micro-batches alive on rank r to keep up.
class LossByPeriod {
 public:
  explicit LossByPeriod(const Schedule& schedule)
      : schedule_(schedule),
        result_(schedule),
        next_(schedule.ranks.size()),
        stages_(schedule.ranks.size()),
        forward_(schedule, never),
        backward_(schedule, never) {
    for (std::vector<Action>& list : result_.ranks) list.clear();
    for (int copy = 0; copy < schedule.copies(); ++copy)
      for (const int rank : schedule.ranks_of_copy(copy)) ++stages_[at_index(rank)];
  }

  std::optional<Schedule> run() {
    // The last micro-batch of a copy enters in the period of its number there, and takes one period for each stage in
    // each direction.
    const int periods =
        (schedule_.micro_batches + schedule_.copies() - 1) / schedule_.copies() + 2 * schedule_.stages() - 1;
    for (int period = 0; period < periods && !is_complete(); ++period) {
      for (std::size_t rank = 0; rank < next_.size(); ++rank) take(rank, period);
      add_losses();
    }
    if (!is_complete()) return std::nullopt;
    return std::move(result_);
  }

 private:
  static constexpr int before_all_periods = -1;
  static constexpr int never = std::numeric_limits<int>::max();

  int last_stage() const { return schedule_.stages() - 1; }
  bool is_complete() const {
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      if (next_[rank] < static_cast<int>(schedule_.ranks[rank].size())) return false;
    return true;
  }

  /// What a rank computes in a period.
  void take(std::size_t rank, int period) {
    const std::vector<Action>& list = schedule_.ranks[rank];
    int forwards = 0;
    int backwards = 0;
    for (int& first = next_[rank]; first < static_cast<int>(list.size());) {
      const int end = end_of_overlap(list, first);
      for (int i = first; i < end; ++i) {
        const Action& action = list[at_index(i)];
        if (needed(action) >= period) return;
        forwards += action.kind == ActionKind::forward;
        backwards += is_backward(action.kind);
      }
      if (forwards > stages_[rank] || backwards > stages_[rank]) return;
      for (int i = first; i < end; ++i) {
        const Action& action = list[at_index(i)];
        if (action.kind == ActionKind::forward) forward_(action) = period;
        if (is_backward(action.kind)) backward_(action) = period;
        if (action.kind == ActionKind::forward && action.stage == last_stage()) ended_.push_back(action.micro_batch);
      }
      append(result_.ranks[rank], list, first, end);
      first = end;
    }
  }

  /// The period of the computation that an action needs from another stage or from the head; `before_all_periods` if
  /// none.
  int needed(const Action& action) const {
    if (action.kind == ActionKind::forward && action.stage > 0) return forward_(action.stage - 1, action.micro_batch);
    if (!is_backward(action.kind)) return before_all_periods;
    return action.stage == last_stage() ? forward_(action) : backward_(action.stage + 1, action.micro_batch);
  }

  void add_losses() {
    std::sort(ended_.begin(), ended_.end());
    for (std::vector<Action>& list : result_.ranks)
      for (const int micro_batch : ended_) list.push_back({ActionKind::loss, last_stage(), micro_batch});
    ended_.clear();
  }

  const Schedule& schedule_;
  Schedule result_;
  std::vector<int> next_;    // per rank: its first action that has not been taken
  std::vector<int> stages_;  // per rank: how many it has
  PerCell<int> forward_;     // the period of F
  PerCell<int> backward_;    // the period of B or I
  std::vector<int> ended_;   // micro-batches that have left the last stage in this period
};

/// Adds an H to all ranks, each before the rank's first action that begins when the last stage's F has ended or later.
/// In the order of these times no action waits for a later one, so that the collectives cannot deadlock.
Schedule with_loss_by_time(Schedule schedule) {
  const UnitTimes times = unit_times(schedule);
  const int last = schedule.stages() - 1;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<Action> list = std::move(schedule.ranks[rank]);
    std::size_t next = 0;
    const auto add_until = [&](std::int64_t time, std::vector<Action>& result) {
      for (; next < times.last_forward.size() && times.last_forward[next].first <= time; ++next) {
        result.push_back({ActionKind::loss, last, times.last_forward[next].second});
      }
    };
    schedule.ranks[rank] = rewritten(list, [&](int first, int end, std::vector<Action>& result) {
      add_until(times.begin[rank][at_index(first)], result);
      append(result, list, first, end);
    });
    add_until(std::numeric_limits<std::int64_t>::max(), schedule.ranks[rank]);
  }
  return schedule;
}

/// If F, I, W and R take one unit, B two and H none.
double makespan(const Schedule& schedule) {
  return simulate(schedule, {}).step_time;
}

Schedule with_loss_at(Schedule schedule, const std::vector<int>& places) {
  std::vector<Action> losses;
  for (int i = 0; i < schedule.micro_batches; ++i) losses.push_back({ActionKind::loss, schedule.stages() - 1, i});
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::vector<Action>& list = schedule.ranks[rank];
    list.insert(list.begin() + places[rank], losses.begin(), losses.end());
  }
  return schedule;
}

}  // namespace

Schedule with_loss(Schedule schedule, LossForm form) {
  if (form == LossForm::in_two_exchanges || form == LossForm::in_one_exchange) {
    schedule.has_loss_in_one_exchange = form == LossForm::in_one_exchange;
    return with_loss_in_parts(schedule);
  }
  if (form == LossForm::on_all) {
    if (const auto places = between_forward_and_backward(schedule)) return with_loss_at(std::move(schedule), *places);
    Schedule by_time = with_loss_by_time(schedule);
    std::optional<Schedule> by_period = LossByPeriod(schedule).run();
    return by_period && makespan(*by_period) <= makespan(by_time) ? std::move(*by_period) : std::move(by_time);
  }
  const int last = schedule.stages() - 1;
  for (int copy = 0; copy < schedule.copies(); ++copy) {
    std::vector<Action>& list = schedule.ranks[at_index(schedule.ranks_of_copy(copy).back())];
    list = rewritten(list, [&](int first, int end, std::vector<Action>& result) {
      append(result, list, first, end);
      for (int i = first; i < end; ++i) {
        const Action& action = list[at_index(i)];
        if (action.kind != ActionKind::forward || action.stage != last) continue;
        result.push_back({ActionKind::loss, last, action.micro_batch});
      }
    });
  }
  return schedule;
}

}  // namespace heddle
