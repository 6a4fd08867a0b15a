// The schedule `2f2b`: 1f1b with two micro-batches in the place of one, so that the message of the first travels while
// the second is computed (kFkB in Wang et al. 2023, "Ada-Grouper", arXiv 2303.01675). Rank r of p holds
// min(m, 2(p - r)) micro-batches.
//
//   0: F0 F1 F2 F3 B0 B1       B2 B3
//   1:    F0 F1 B0 B1 F2 F3 B2 B3
#include <algorithm>

#include "experiments/extensions/extension.h"

using namespace heddle;

static Schedule two_forward_two_backward(const ScheduleShape& shape) {
  constexpr int group = 2;
  Schedule schedule = empty_schedule(shape.micro_batches, looped_stages(shape.ranks, 1));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.ranks[static_cast<std::size_t>(rank)];
    int forward = 0;
    for (int first = 0; first < shape.micro_batches; first += group) {
      const int sent = std::min(shape.micro_batches, first + group * (shape.ranks - rank));
      for (; forward < sent; ++forward) list.push_back({ActionKind::forward, rank, forward});
      const int end = std::min(shape.micro_batches, first + group);
      for (int i = first; i < end; ++i) list.push_back({ActionKind::backward, rank, i});
    }
  }
  return schedule;
}

extern "C" void heddle_extend(Extension& own) {
  own.schedules.push_back({"2f2b", "1f1b in groups of two, which hides messages", two_forward_two_backward});
}
