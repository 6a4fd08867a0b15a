// Qi et al. 2023, "Zero bubble pipeline parallelism": the backward in two parts, so that weight parts, for which no
// other action waits, fill the bubble. These are the paper's handcrafted schedules.
#include <algorithm>

#include "framework/error.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {
namespace {

/// 1f1b with the given warm-up, where each W comes `waiting` I later.
void append_one_stage(std::vector<Action>& list, int stage, int micro_batches, int warm_up, int waiting) {
  int forward = 0;
  const auto forward_until = [&](int end) {
    for (; forward < std::min(micro_batches, end); ++forward) list.push_back({ActionKind::forward, stage, forward});
  };
  for (int i = 0; i < micro_batches + waiting; ++i) {
    forward_until(warm_up + i);
    if (i < micro_batches) list.push_back({ActionKind::backward_input, stage, i});
    if (i >= waiting) list.push_back({ActionKind::backward_weight, stage, i - waiting});
  }
}

}  // namespace

void check_zb_h2(std::string_view name, const ScheduleShape& shape) {
  const int min_micro_batches = 2 * shape.ranks - 1;
  if (shape.micro_batches < min_micro_batches)
    fail<InputError>("{}: expected at least {} micro-batches for {} ranks, got {}", name, min_micro_batches,
                     shape.ranks, shape.micro_batches);
}

/// Bubble (p-1)(F+I-W). Alive on rank r: min(m, p-r) micro-batches as in 1f1b, and the inputs of r weight parts.
///
///   0: F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3
///   1:    F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
///   2:       F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
Schedule zb_h1(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(shape.micro_batches, looped_stages(shape.ranks, 1));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    append_one_stage(schedule.ranks[at_index(rank)], rank, shape.micro_batches, shape.ranks - rank, rank);
  }
  return schedule;
}

/// Bubble within each rank's span (p-1)(F+I+2c-2W): none where F = I = W. Alive on rank r: 2(p-r)-1 micro-batches, and
/// the inputs of 2r weight parts.
///
///   0: F0 F1 F2 F3 F4 I0 W0 I1 W1 I2 W2 I3 W3 I4 W4
///   1:    F0 F1 F2 I0 F3 I1 F4 I2 W0 I3 W1 I4 W2 W3 W4
///   2:       F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 W1 W2 W3 W4
Schedule zb_h2(const ScheduleShape& shape) {
  check_zb_h2("zb_h2", shape);
  Schedule schedule = empty_schedule(shape.micro_batches, looped_stages(shape.ranks, 1));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    append_one_stage(schedule.ranks[at_index(rank)], rank, shape.micro_batches, 2 * (shape.ranks - rank) - 1, 2 * rank);
  }
  return schedule;
}

}  // namespace heddle
