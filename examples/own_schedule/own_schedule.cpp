// The schedule `eager_1f1b`: 1f1b with almost twice the micro-batches in its warm-up, so that a transfer overlaps with
// the forward of another micro-batch (Zhuang et al. 2023, "On optimizing the communication of model parallelism"). Rank
// r of p holds min(m, 2(p - r) - 1) micro-batches.
//
//   0: F0 F1 F2 F3       B0 F4 B1 F5 B2    B3 ..
//   1:    F0 F1 F2    B0 F3 B1 F4 B2 ..
//   2:       F0 B0 F1 B1 F2 B2 ..
#include <algorithm>

#include "experiments/extensions/extension.h"

using namespace heddle;

static Schedule eager_1f1b(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(shape.micro_batches, looped_stages(shape.ranks, 1));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.ranks[static_cast<std::size_t>(rank)];
    int forward = 0;
    for (int i = 0; i < shape.micro_batches; ++i) {
      const int alive = std::min(shape.micro_batches, i + 2 * (shape.ranks - rank) - 1);
      for (; forward < alive; ++forward) list.push_back({ActionKind::forward, rank, forward});
      list.push_back({ActionKind::backward, rank, i});
    }
  }
  return schedule;
}

extern "C" void heddle_extend(Extension& own) {
  own.schedules.push_back({"eager_1f1b", "1f1b with a longer warm-up, which hides transfers", eager_1f1b});
}
