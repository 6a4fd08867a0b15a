// What `heddle schedule` says of one schedule.
#pragma once

#include <string>

#include "parallel/pipeline/simulation.h"

namespace heddle {

struct ScheduleReport {
  std::string name;  // `1f1b`, or the file that it was read from
  Schedule schedule;
  Simulation simulation;
};

/// `1f1b: 4 ranks, 8 micro-batches`
std::string schedule_title(const ScheduleReport& report);
/// Makespan, both bubbles, peak memory of the ranks: for people.
std::string schedule_figures(const ScheduleReport& report);
/// The same with stable keys. `stages` is the number of ranks, each of which has `chunks` of the model's; where they
/// have unequal numbers of them, it is that of all, and `chunks` null.
std::string schedule_json(const ScheduleReport& report);

}  // namespace heddle
