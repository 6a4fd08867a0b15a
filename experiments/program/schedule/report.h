// The output of `heddle schedule` for one schedule.
#pragma once

#include <optional>
#include <string>

#include "experiments/program/schedule/critical_path_report.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {

struct ScheduleReport {
  std::string name;  // `1f1b`, or the file that it was read from
  Schedule schedule;
  Simulation simulation;
  /// If it has been asked for.
  std::optional<CriticalPathReport> critical{};
};

/// `1f1b: 4 ranks, 8 micro-batches`
std::string schedule_title(const ScheduleReport& report);
/// Makespan, both bubbles and the peak memory of the ranks, as text; the table of the critical path.
std::string schedule_figures(const ScheduleReport& report);
/// The same as JSON with stable keys. `ranks` is what the option `--stages` gives; `stages` is the number of all stages
/// of the model, and `chunks` is that of each rank, null if the ranks have unequal numbers of them.
std::string schedule_json(const ScheduleReport& report);

}  // namespace heddle
