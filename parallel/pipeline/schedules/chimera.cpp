// Li and Hoefler 2021, "Chimera: efficiently training large-scale neural networks with bidirectional pipelines" (arXiv
// 2107.06925): two copies of each stage, one down the ranks and one up, so that each pipeline computes in the other's
// bubble.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "parallel/pipeline/schedules.h"

namespace heddle {
namespace {

struct Slot {
  std::int64_t time;
  Action action;
};

/// Appends the slots of one copy in a timetable where F and B take one unit each. A unit of p micro-batches, half of
/// them in each direction, is 1f1b in both directions, with a micro-batch every two units of time. The next unit begins
/// 2p later, in the bubble of this one (the paper's direct concatenation). As p is even, no two slots of a rank
/// coincide: one direction's forwards and the other's backwards are at even times, the others at odd ones.
void append_slots(std::vector<std::vector<Slot>>& ranks, const Schedule& schedule, int copy) {
  const std::int64_t stages = schedule.stages();
  const std::int64_t in_unit = stages / 2;
  for (int micro_batch = copy; micro_batch < schedule.micro_batches; micro_batch += 2) {
    const std::int64_t number = micro_batch / 2;
    const std::int64_t entered = 2 * stages * (number / in_unit) + 2 * (number % in_unit);
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      std::vector<Slot>& slots = ranks[at_index(schedule.rank_at(stage, micro_batch))];
      slots.push_back({entered + stage, {ActionKind::forward, stage, micro_batch}});
      slots.push_back({entered + 2 * stages - 1 - stage, {ActionKind::backward, stage, micro_batch}});
    }
  }
}

}  // namespace

/// Bubble (p-2)B + (p-2)(m/p-1)(B-F) if p divides m and B >= F: (p-2)F if B = F, however large m is. min(p, p/2+1+r)
/// micro-batches are alive on rank r of the first half, and as many on its mirror image. Small letters go up:
///
///   0: F0    F2 f1 b1 f3 b3 B0    B2
///   1:    F0 f1 F2 f3 b1 B0 b3 B2
///   2:    f1 F0 f3 F2 B0 b1 B2 b3
///   3: f1    f3 F0 B0 F2 B2 b1    b3
Schedule chimera(const ScheduleShape& shape) {
  check_two_copies("chimera", shape);
  Schedule schedule = empty_schedule_of_two_copies(shape.micro_batches, looped_stages(shape.ranks, 1));
  std::vector<std::vector<Slot>> ranks(schedule.ranks.size());
  for (int copy = 0; copy < schedule.copies(); ++copy) append_slots(ranks, schedule, copy);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::sort(ranks[rank].begin(), ranks[rank].end(), [](const Slot& a, const Slot& b) { return a.time < b.time; });
    for (const Slot& slot : ranks[rank]) schedule.ranks[rank].push_back(slot.action);
  }
  return schedule;
}

}  // namespace heddle
