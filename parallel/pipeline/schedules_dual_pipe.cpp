// DeepSeek-AI 2024, "DeepSeek-V3 technical report": DualPipe sends micro-batches from both ends of the pipeline, so
// that each rank has one stage's forward to compute beside another's backward. Cut in half ("DualPipeV"), both streams
// are one: down the ranks and up again.
#include <array>
#include <cstddef>

#include "framework/error.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {
namespace {

/// Writes the list of one rank and counts the micro-batches of each stage.
class DualPipeRank {
 public:
  DualPipeRank(std::vector<Action>& list, int ranks, int rank) : list_(list), stages_{rank, 2 * ranks - 1 - rank} {}

  // `way`: 0 down the ranks, 1 up again.
  void forward(std::size_t way) { append(ActionKind::forward, way, forwards_[way]++); }
  void backward(std::size_t way) { append(ActionKind::backward, way, backwards_[way]++); }
  void backward_input(std::size_t way) {
    const int micro_batch = backwards_[way]++;
    append(ActionKind::backward_input, way, micro_batch);
    weights_.push_back({ActionKind::backward_weight, stages_[way], micro_batch});
  }
  void forward_beside_backward(std::size_t forward_way) {
    forward(forward_way);
    list_.back().overlaps_next = true;
    backward(1 - forward_way);
  }
  /// Appends the weight part that has waited longest, if there is one.
  void weight() {
    if (weights_done_ < weights_.size()) list_.push_back(weights_[weights_done_++]);
  }

 private:
  void append(ActionKind kind, std::size_t way, int micro_batch) { list_.push_back({kind, stages_[way], micro_batch}); }

  std::vector<Action>& list_;
  std::array<int, 2> stages_;
  std::array<int, 2> forwards_{};
  std::array<int, 2> backwards_{};
  std::vector<Action> weights_;
  std::size_t weights_done_ = 0;
};

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
    const std::size_t way = i % 2 == 0 ? 1 : 0;
    if (i < whole) {
      list.backward(way);
    } else {
      list.backward_input(way);
    }
  }
  for (int i = 0; i < below; ++i) {
    list.weight();
    list.backward_input(0);
  }
  for (int i = 0; i < above; ++i) list.weight();
}

}  // namespace

void check_dualpipe_v(std::string_view name, const ScheduleShape& shape) {
  const int least = 2 * shape.ranks;
  if (shape.micro_batches < least)
    fail<InputError>("{}: expected at least {} micro-batches for {} {}, got {}", name, least, shape.ranks,
                     shape.ranks == 1 ? "rank" : "ranks", shape.micro_batches);
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
    append_dual_pipe({schedule.ranks[static_cast<std::size_t>(rank)], shape.ranks, rank}, shape.ranks, rank,
                     shape.micro_batches);
  }
  return schedule;
}

}  // namespace heddle
