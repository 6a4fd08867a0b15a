// Liu et al. 2023, "Hanayo: Harnessing wave-like pipeline parallelism for enhanced large model training efficiency":
// the stages go down the ranks and up again in w waves, so that there is no message where a wave turns.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {
namespace {

/// Executes every action as early as possible in units of time, where an F takes one and a B two.
class WaveScheduler {
 public:
  explicit WaveScheduler(const ScheduleShape& shape)
      : shape_(shape),
        schedule_(empty_schedule(shape.micro_batches, wave_stages(shape.ranks, shape.chunks))),
        ranks_(at_index(shape.ranks)),
        forwards_(schedule_.rank_of.size()),
        backwards_(schedule_.rank_of.size()),
        forward_end_(schedule_, never),
        backward_end_(schedule_, never) {}

  Schedule run() {
    std::size_t left = 2 * schedule_.rank_of.size() * at_index(shape_.micro_batches);
    std::array<std::vector<int>, 3> ending;  // the ranks whose actions end at a time, modulo 3
    for (int time = 0; left > 0; ++time) {
      std::vector<int>& ended = ending[at_index(time % 3)];
      for (const int rank : time == 0 ? all_ranks() : with_neighbours(ended)) {
        if (!step(rank, time)) continue;
        --left;
        ending[at_index(ranks_[at_index(rank)].free % 3)].push_back(rank);
      }
      ended.clear();
    }
    return std::move(schedule_);
  }

 private:
  static constexpr int never = std::numeric_limits<int>::max();

  struct RankState {
    int free = 0;   // the time at which it has nothing to do
    int alive = 0;  // its stages' micro-batches between F and B
  };

  int stage_of(int rank, int chunk) const {
    return chunk * shape_.ranks + (chunk % 2 == 0 ? rank : shape_.ranks - 1 - rank);
  }
  int next_forward(int stage) const { return forwards_[at_index(stage)]; }
  int next_backward(int stage) const { return backwards_[at_index(stage)]; }

  std::vector<int> all_ranks() const {
    std::vector<int> all(at_index(shape_.ranks));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  /// The ranks for which the end of an action on these may have made another action possible, each once.
  std::vector<int> with_neighbours(const std::vector<int>& ended) const {
    std::vector<int> all;
    for (const int rank : ended)
      for (int other = std::max(rank - 1, 0); other <= std::min(rank + 1, shape_.ranks - 1); ++other)
        all.push_back(other);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  bool step(int rank, int time) {
    RankState& state = ranks_[at_index(rank)];
    if (state.free > time) return false;
    std::optional<int> stage = next_stage(
        rank, [&](int chunk) { return can_go_back(stage_of(rank, chunk), time); }, backwards_);
    const bool is_forward = !stage;
    if (is_forward)
      stage = next_stage(
          rank, [&](int chunk) { return has_room(state, chunk) && can_go_forward(stage_of(rank, chunk), time); },
          forwards_);
    if (!stage) return false;
    const int micro_batch = (is_forward ? forwards_ : backwards_)[at_index(*stage)]++;
    state.free = time + (is_forward ? 1 : 2);
    state.alive += is_forward ? 1 : -1;
    (is_forward ? forward_end_ : backward_end_)(*stage, micro_batch) = state.free;
    schedule_.ranks[at_index(rank)].push_back(
        {is_forward ? ActionKind::forward : ActionKind::backward, *stage, micro_batch});
    return true;
  }

  /// The stage of a rank's chunks that can go on, with the oldest micro-batch; of equal ones the first. Empty if none
  /// can go on.
  template <class Can>
  std::optional<int> next_stage(int rank, const Can& can, const std::vector<int>& next) const {
    std::optional<int> best;
    for (int chunk = 0; chunk < shape_.chunks; ++chunk) {
      if (!can(chunk)) continue;
      const int stage = stage_of(rank, chunk);
      if (!best || next[at_index(stage)] < next[at_index(*best)]) best = stage;
    }
    return best;
  }

  bool can_go_forward(int stage, int time) const {
    const int i = next_forward(stage);
    if (i == shape_.micro_batches) return false;
    return stage == 0 || forward_end_(stage - 1, i) <= time;
  }

  bool can_go_back(int stage, int time) const {
    const int i = next_backward(stage);
    if (i == shape_.micro_batches || forward_end_(stage, i) > time) return false;
    return stage + 1 == schedule_.stages() || backward_end_(stage + 1, i) <= time;
  }

  /// A rank holds p micro-batches at most. An F leaves room for its micro-batch in the rank's later chunks, so that the
  /// oldest micro-batch can always go on.
  bool has_room(const RankState& state, int chunk) const {
    return state.alive + shape_.chunks - chunk <= shape_.ranks * shape_.chunks;
  }

  ScheduleShape shape_;
  Schedule schedule_;
  std::vector<RankState> ranks_;
  std::vector<int> forwards_;   // per stage: the next micro-batch to go forward
  std::vector<int> backwards_;  // per stage: the next one to go back
  PerCell<int> forward_end_;
  PerCell<int> backward_end_;
};

}  // namespace

void check_hanayo(std::string_view name, const ScheduleShape& shape) {
  if (shape.chunks % 2 != 0)
    fail<InputError>("{}: expected an even number of chunks, two for each wave, got {}", name, shape.chunks);
}

/// v = 2w stages per rank in w waves. Backwards come first, then the forward of the oldest micro-batch; each rank holds
/// p micro-batches at most. Where B = 2F and m = p, as in the paper's figures, the bubble is 2(p-1)F for one wave and
/// about 2(p-1)F/w for w of them. More micro-batches follow as soon as there is room, and add to it.
///
///   0: F0 F1 F2       f0 b0    f1 b1    f2 b2          B0          B1          B2
///   1:    F0 F1 F2 f0    f1    b0    f2 b1       B0    b2    B1          B2
///   2:       F0 f0 F1 f1 F2 f2       b0    B0    b1    B1    b2    B2
Schedule hanayo(const ScheduleShape& shape) {
  check_hanayo("hanayo", shape);
  return WaveScheduler(shape).run();
}

}  // namespace heddle
