// The named schedules, each a pure function to compute-only lists (F and B, or F, I and W), and their table. All visit
// the micro-batches of a stage's backward in the order 0, 1, .., so that gradients add up as in a serial run.
#pragma once

#include <span>
#include <string_view>

#include "parallel/pipeline/schedule.h"

namespace heddle {

/// p, m and v of the literature.
struct ScheduleShape {
  int ranks = 1;
  int micro_batches = 1;
  /// Stages a rank.
  int chunks = 1;
};

// Sources, formulas and pictures stand beside each function: schedules.cpp, and schedules_*.cpp for each family.
Schedule naive(const ScheduleShape& shape);        // no two ranks compute at once: micro-batch by micro-batch
Schedule gpipe(const ScheduleShape& shape);        // Huang et al. 2019
Schedule one_f_one_b(const ScheduleShape& shape);  // `1f1b`: Narayanan et al. 2019, 2021 (with flushes)
Schedule interleaved(const ScheduleShape& shape);  // Narayanan et al. 2021: interleaved 1f1b
Schedule looped_bfs(const ScheduleShape& shape);   // Lamy-Poirier 2023: breadth-first
Schedule zb_h1(const ScheduleShape& shape);        // Qi et al. 2023, zero bubble
Schedule zb_h2(const ScheduleShape& shape);        // m >= 2p - 1
Schedule zb_v(const ScheduleShape& shape);         // Qi et al. 2024, controllable memory: V-shaped
Schedule v_half(const ScheduleShape& shape);
Schedule v_min(const ScheduleShape& shape);
Schedule interleaved_zb(const ScheduleShape& shape);  // PyTorch: interleaved 1f1b, weight parts in its gaps
Schedule dualpipe_v(const ScheduleShape& shape);      // DeepSeek-V3's DualPipe cut in half

struct ScheduleType {
  std::string_view name;         // as in an experiment: `1f1b`
  std::string_view description;  // one line for `heddle list schedules`
  Schedule (*make)(const ScheduleShape&);
  /// Chunks that it is made for: of a range's ends, equal ones say that it takes no others. 0: no bound.
  int least_chunks = 1;
  int most_chunks = 1;
};
/// In the order in which `heddle list schedules` prints them. A new schedule is one function and one row.
std::span<const ScheduleType> schedule_types();

/// Chunks where none are told: two where the schedule takes several, else what it is made for; 1 for an unknown name.
int usual_chunks(std::string_view name);

/// InputError: an unknown name, with the nearest one; chunks that the schedule does not take; fewer micro-batches than
/// it needs; micro-batches that its chunks do not divide.
Schedule make_schedule(std::string_view name, const ScheduleShape& shape);

}  // namespace heddle
