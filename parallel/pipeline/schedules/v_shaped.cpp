// Two stages per rank, down the ranks and up again, so that the rank that keeps one stage's activations longest keeps
// the other's shortest, and all ranks need the same memory. In the pictures f0 is F0 of a rank's second stage.
//
// Qi et al. 2024, "Pipeline parallelism with controllable memory": one micro-batch's F, f, i and I stand at fixed times
// (the building block), the next one's six units later, in whose other two units the W fit. The time that a block takes
// is the memory. A schedule is the order of these times, run as early as can be.
#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {
namespace {

constexpr int period = 6;

/// The time between one rank and the next on a micro-batch's way, if every action takes one unit.
struct Steps {
  int forward_down;
  int forward_up;
  int backward_down;
  int backward_up;
};

/// The times of one micro-batch's F, f, i and I on one rank.
using Block = std::array<int, 4>;

/// The blocks of all ranks, given the times of f, i and I on rank 0.
class Blocks {
 public:
  Blocks(int ranks, const Steps& steps) : steps_(steps) {
    const int turn = ranks - 1;
    const int min_f = turn * (steps.forward_down + steps.forward_up) + 1;
    for (f_ = min_f; f_ < min_f + period; ++f_) {
      for (i_ = f_ + 1; i_ <= f_ + period; ++i_) {
        const int min_b = i_ + turn * (steps.backward_down + steps.backward_up) + 1;
        for (b_ = min_b; b_ < min_b + period; ++b_) {
          if (fits(ranks)) return;
        }
      }
    }
  }

  Block of(int rank) const {
    return {rank * steps_.forward_down, f_ - rank * steps_.forward_up, i_ + rank * steps_.backward_down,
            b_ - rank * steps_.backward_up};
  }

 private:
  /// Whether no rank does two things at once when blocks follow each other.
  bool fits(int ranks) const {
    for (int rank = 0; rank < ranks; ++rank) {
      unsigned taken = 0;
      for (const int time : of(rank)) {
        const unsigned slot = 1U << static_cast<unsigned>(time % period);
        if ((taken & slot) != 0) return false;
        taken |= slot;
      }
    }
    return true;
  }

  Steps steps_;
  int f_ = 0;
  int i_ = 0;
  int b_ = 0;
};

/// How a schedule is made out of its building block.
struct Squeeze {
  Steps steps;
  /// Stages' activations and weight inputs that may be alive on a rank beyond the activations of the steady state; past
  /// them a W comes before the next F.
  int more_alive;
  /// Whether an idle rank does its next F ahead of the order.
  bool fill_warm_up;
};

class VShapedScheduler {
 public:
  VShapedScheduler(const ScheduleShape& shape, const Squeeze& squeeze)
      : squeeze_(squeeze),
        micro_batches_(shape.micro_batches),
        last_stage_(2 * shape.ranks - 1),
        schedule_(empty_schedule(shape.micro_batches, folded_stages(shape.ranks))),
        ranks_(at_index(shape.ranks)),
        forward_end_(schedule_, never),
        backward_end_(schedule_, never) {
    const Blocks blocks(shape.ranks, squeeze.steps);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      ranks_[at_index(rank)].order = in_order(blocks.of(rank), rank);
      steady_ = std::max(steady_, max_alive(ranks_[at_index(rank)].order));
    }
  }

  /// In each unit of time, each rank does its next action if the input is available, else a W, else nothing.
  Schedule run() {
    std::size_t left = 3 * schedule_.rank_of.size() * at_index(micro_batches_);
    for (int time = 0; left > 0; ++time) {
      for (int rank = 0; rank < schedule_.size(); ++rank) left -= step(rank, time) ? 1 : 0;
    }
    return std::move(schedule_);
  }

 private:
  static constexpr int never = std::numeric_limits<int>::max();

  struct RankState {
    std::vector<Action> order;  // all but W
    std::size_t next = 0;
    std::vector<Action> weights;  // W of each I so far
    std::size_t weights_done = 0;
    int forwards_down = 0;  // F of the first stage
    int alive = 0;

    int waiting() const { return static_cast<int>(weights.size() - weights_done); }
  };

  std::vector<Action> in_order(const Block& block, int rank) const {
    const std::array<Action, 4> actions{Action{ActionKind::forward, rank, 0},
                                        {ActionKind::forward, last_stage_ - rank, 0},
                                        {ActionKind::backward_input, last_stage_ - rank, 0},
                                        {ActionKind::backward_input, rank, 0}};
    std::vector<std::pair<std::int64_t, Action>> timed;
    for (int i = 0; i < micro_batches_; ++i) {
      for (std::size_t a = 0; a < actions.size(); ++a) {
        timed.emplace_back(block[a] + static_cast<std::int64_t>(period) * i,
                           Action{actions[a].kind, actions[a].stage, i});
      }
    }
    std::sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Action> order;
    for (const auto& [time, action] : timed) order.push_back(action);
    return order;
  }

  static int max_alive(const std::vector<Action>& order) {
    int alive = 0;
    int max_so_far = 0;
    for (const Action& action : order) {
      alive += action.kind == ActionKind::forward ? 1 : -1;
      max_so_far = std::max(max_so_far, alive);
    }
    return max_so_far;
  }

  bool is_ready(const Action& action, int time) const {
    const auto ended = [&](const PerCell<int>& ends, int stage) { return ends(stage, action.micro_batch) <= time; };
    if (action.kind == ActionKind::forward) return action.stage == 0 || ended(forward_end_, action.stage - 1);
    return action.stage == last_stage_ ? ended(forward_end_, last_stage_) : ended(backward_end_, action.stage + 1);
  }

  bool step(int rank, int time) {
    RankState& state = ranks_[at_index(rank)];
    const auto is_done = [&](const Action& action) {
      return action.kind == ActionKind::forward && action.stage == rank && action.micro_batch < state.forwards_down;
    };
    while (state.next < state.order.size() && is_done(state.order[state.next])) ++state.next;
    if (state.next < state.order.size()) {
      const Action& action = state.order[state.next];
      const bool full = action.kind == ActionKind::forward && state.waiting() > 0 &&
                        state.alive + state.waiting() >= steady_ + squeeze_.more_alive;
      if (!full && is_ready(action, time)) {
        ++state.next;
        return perform(state, action, rank, time);
      }
    }
    if (state.waiting() > 0) {
      schedule_.ranks[at_index(rank)].push_back(state.weights[state.weights_done++]);
      return true;
    }
    const Action ahead{ActionKind::forward, rank, state.forwards_down};
    // One place stays free for the second stage's F.
    if (!squeeze_.fill_warm_up || ahead.micro_batch == micro_batches_ || state.alive + 1 >= steady_) return false;
    return is_ready(ahead, time) && perform(state, ahead, rank, time);
  }

  bool perform(RankState& state, const Action& action, int rank, int time) {
    schedule_.ranks[at_index(rank)].push_back(action);
    if (action.kind == ActionKind::forward) {
      forward_end_(action) = time + 1;
      if (action.stage == rank) ++state.forwards_down;
      ++state.alive;
    } else {
      backward_end_(action) = time + 1;
      state.weights.push_back({ActionKind::backward_weight, action.stage, action.micro_batch});
      --state.alive;
    }
    return true;
  }

  Squeeze squeeze_;
  int micro_batches_;
  int last_stage_;
  int steady_ = 0;  // the most activations alive on a rank
  Schedule schedule_;
  std::vector<RankState> ranks_;
  PerCell<int> forward_end_;
  PerCell<int> backward_end_;
};

}  // namespace

/// No bubble within a rank's span where F = I = W and m >= 2p - 1. p micro-batches are alive on all ranks.
///
///   0: F0 F1 F2 F3 F4 f0 i0 w0 f1 i1 w1 f2 i2 I0 w2 W0 f3 i3 I1 w3 W1 f4 i4 I2 w4 I3 W2 I4 W3 W4
///   1:    F0 F1 F2 f0 F3 f1 i0 w0 f2 i1 I0 w1 F4 W0 f3 i2 I1 w2 W1 f4 i3 I2 i4 I3 w3 I4 W2 w4 W3 W4
///   2:       F0 f0 F1 f1 F2 f2 i0 I0 w0 F3 W0 f3 i1 I1 w1 F4 W1 f4 i2 I2 i3 I3 i4 I4 w2 W2 w3 W3 w4 W4
Schedule zb_v(const ScheduleShape& shape) {
  return VShapedScheduler(shape, {{4, 2, 4, 2}, 0, true}).run();
}

/// (p + 1)/2 micro-batches are alive on all ranks; the bubble is about half of 1f1b's.
///
///   0: F0 F1          f0 i0 F2 w0 f1 i1 I0 F3 w1 f2 i2 W0 I1 F4 w2 f3 i3 W1 I2 w3 W2 f4 i4 I3 w4 W3    I4 W4
///   1:    F0       f0 F1    i0 f1 F2 I0 i1 w0 f2 W0 F3 I1 i2 w1 f3 W1 F4 I2 i3 w2 f4 W2 I3 i4 w3 W3 I4 w4 W4
///   2:       F0 f0       F1 f1 i0 I0 F2 w0 f2 i1 I1 W0 F3 w1 f3 i2 I2 W1 F4 w2 f4 i3 I3 W2 w3 i4 I4 W3 w4 W4
Schedule v_half(const ScheduleShape& shape) {
  return VShapedScheduler(shape, {{2, 1, 2, 1}, 1, false}).run();
}

/// At most floor(p / 3) + 1 micro-batches are alive, and on every rank at most half of one fewer; the bubble is about
/// two thirds of 1f1b's.
///
///   0: F0             f0 F1 i0 w0       f1 F2 I0 i1 W0 w1 f2 F3 I1 i2 W1 w2 f3    I2 i3 W2 w3       I3 W3
///   1:    F0       f0       F1 i0 w0 f1    I0 F2 W0 i1 f2 w1 I1 F3 W1 i2 f3 w2 I2 W2    i3 w3    I3 W3
///   2:       F0 f0             F1 f1 i0 I0 w0 W0 F2 f2 i1 I1 w1 W1 F3 f3 i2 I2 w2 W2       i3 I3 w3 W3
Schedule v_min(const ScheduleShape& shape) {
  return VShapedScheduler(shape, {{1, 1, 1, 1}, 2, false}).run();
}

}  // namespace heddle
