// DeepSeek-AI 2024, "DeepSeek-V3 technical report" (arXiv 2412.19437), and its published code: DualPipe sends
// micro-batches from both ends of the pipeline, so that each rank has one stage's forward to compute beside another's
// backward. Cut in half ("DualPipeV"), both streams are one: down the ranks and up again.
#include <array>
#include <cstddef>

#include "framework/error.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {
namespace {

/// Writes the list of one rank and counts its micro-batches of each direction through the pipeline: direction 0 begins
/// on the near side of the rank, direction 1 comes back to it.
class DualPipeRank {
 public:
  /// A direction has the micro-batches first, first + step, first + 2 step and so on.
  struct Direction {
    int stage = 0;
    int first = 0;
    int step = 1;
  };

  DualPipeRank(std::vector<Action>& list, std::array<Direction, 2> directions) : list_(list), directions_(directions) {}

  void forward(std::size_t direction) { append(ActionKind::forward, direction, forwards_[direction]++); }
  void backward(std::size_t direction) { append(ActionKind::backward, direction, backwards_[direction]++); }
  void backward_input(std::size_t direction) {
    const int number = backwards_[direction]++;
    append(ActionKind::backward_input, direction, number);
    weights_.push_back(action(ActionKind::backward_weight, direction, number));
  }
  void forward_beside_backward(std::size_t forward_direction) {
    forward(forward_direction);
    list_.back().overlaps_next = true;
    backward(1 - forward_direction);
  }
  /// Appends the weight part that has waited longest, if there is one.
  void weight() {
    if (weights_done_ < weights_.size()) list_.push_back(weights_[weights_done_++]);
  }

 private:
  Action action(ActionKind kind, std::size_t direction, int number) const {
    return {kind, directions_[direction].stage, directions_[direction].first + number * directions_[direction].step};
  }
  void append(ActionKind kind, std::size_t direction, int number) { list_.push_back(action(kind, direction, number)); }

  std::vector<Action>& list_;
  std::array<Direction, 2> directions_;
  std::array<int, 2> forwards_{};
  std::array<int, 2> backwards_{};
  std::vector<Action> weights_;
  std::size_t weights_done_ = 0;
};

/// `micro_batches` go in each direction through `ranks` ranks, of which this one is the `rank`-th that direction 0
/// meets.
void append_dual_pipe(DualPipeRank list, int ranks, int rank, int micro_batches) {
  const int below = ranks - 1 - rank;
  const int above = rank + 1;
  // Warm-up: until the first gradient is due.
  for (int i = 0; i < 2 * below; ++i) list.forward(0);
  for (int i = 0; i < above; ++i) {
    list.forward(0);
    list.forward(1);
  }
  for (int i = 0; i < below; ++i) {
    list.backward_input(1);
    list.weight();
    list.forward(1);
  }
  for (int i = 0; i < micro_batches - 2 * ranks + above; ++i) {
    if (i == 0 && below == 0) {  // the rank above waits for this F
      list.forward(0);
      list.backward(1);
    } else {
      list.forward_beside_backward(0);
    }
    list.forward_beside_backward(1);
  }
  for (int i = 0; i < below; ++i) {
    list.backward(1);
    list.forward_beside_backward(1);
  }
  // Cool-down: from the middle on, weight parts wait for the gaps.
  const int backwards = 2 * above;
  const int whole = above / 2 * 2 + (rank % 2 == 0 ? 1 : 0);
  for (int i = 0; i < backwards; ++i) {
    const std::size_t direction = i % 2 == 0 ? 1 : 0;
    if (i < whole) {
      list.backward(direction);
    } else {
      list.backward_input(direction);
    }
  }
  for (int i = 0; i < below; ++i) {
    list.weight();
    list.backward_input(0);
  }
  for (int i = 0; i < above; ++i) list.weight();
}

void check_micro_batches(std::string_view name, const ScheduleShape& shape) {
  const int min_micro_batches = 2 * shape.ranks;
  if (shape.micro_batches < min_micro_batches) {
    fail<InputError>("{}: expected at least {} micro-batches for {} {}, got {}", name, min_micro_batches, shape.ranks,
                     shape.ranks == 1 ? "rank" : "ranks", shape.micro_batches);
  }
}

}  // namespace

void check_dualpipe_v(std::string_view name, const ScheduleShape& shape) {
  check_micro_batches(name, shape);
}

void check_dualpipe(std::string_view name, const ScheduleShape& shape) {
  check_two_copies(name, shape);
  check_micro_batches(name, shape);
}

/// As PyTorch's ScheduleDualPipeV. Bubble (p-1)(F&B + B - 3W) on the ranks with most of it, F&B being the time of an
/// overlapped pair, all of one stage; p + 1/2 micro-batches are alive. `+` joins a pair:
///
///   0: F0 F1 F2 f0 i0 w0 f1 F3+b1       f2+B0    b2       f3+B1    b3    I2 W2 I3 W3
///   1:    F0 f0 F1 f1 F2 b0    f2+B0    F3+b1    f3+B1    b2    B2       i3 I3 w3 W3
Schedule dualpipe_v(const ScheduleShape& shape) {
  check_dualpipe_v("dualpipe_v", shape);
  Schedule schedule = empty_schedule(shape.micro_batches, folded_stages(shape.ranks));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    append_dual_pipe({schedule.ranks[at_index(rank)], {{{.stage = rank}, {.stage = 2 * shape.ranks - 1 - rank}}}},
                     shape.ranks, rank, shape.micro_batches);
  }
  return schedule;
}

/// DeepSeek's DualPipe. Bubble (p/2-1)(F&B + B - 3W) as dualpipe_v's on half of the ranks, F&B being the time of an
/// overlapped pair; p + 1 micro-batches are alive, and each rank has the parameters of two stages. Small letters go up:
///
///   0: F0 F2 F4 f1 i1 w1 f3 F6+b3       f5+B0    b5       f7+B2    b7    I4 W4 I6 W6
///   1:    F0 f1 F2 f3 F4 b1    f5+B0    F6+b3    f7+B2    b5    B4       i7 I6 w7 W6
///   and ranks 2 and 3, the mirror image
Schedule dualpipe(const ScheduleShape& shape) {
  check_dualpipe("dualpipe", shape);
  Schedule schedule = empty_schedule_of_two_copies(shape.micro_batches, looped_stages(shape.ranks, 1));
  const int half = shape.ranks / 2;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const DualPipeRank::Direction down{.stage = rank, .first = 0, .step = 2};
    const DualPipeRank::Direction up{.stage = shape.ranks - 1 - rank, .first = 1, .step = 2};
    const bool enters_down = rank < half;
    append_dual_pipe({schedule.ranks[at_index(rank)], enters_down ? std::array{down, up} : std::array{up, down}}, half,
                     enters_down ? rank : shape.ranks - 1 - rank, shape.micro_batches / 2);
  }
  return schedule;
}

}  // namespace heddle
