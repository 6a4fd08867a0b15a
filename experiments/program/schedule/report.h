// The output of `heddle schedule` for one schedule.
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
/// Makespan, both bubbles and the peak memory of the ranks, as text.
std::string schedule_figures(const ScheduleReport& report);
/// The same as JSON with stable keys. `stages` is the number of ranks, each of which has `chunks` stages of the model.
/// If the ranks have unequal numbers of them, `stages` is their total, and `chunks` is null.
std::string schedule_json(const ScheduleReport& report);

}  // namespace heddle
