// The best schedule under a bound on memory: all named ones and a family of our own are weighed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {

struct SearchSpace {
  int ranks = 1;
  /// Weighed: the divisors and multiples of it from `ranks` (or itself, if that is less) to most_micro_batches. A
  /// step's samples stay the same, so that costs of computing, memory and a transfer's `occupies` scale by
  /// micro_batches / m.
  int micro_batches = 1;
  int most_micro_batches = 1;
  /// Stages a rank.
  int most_chunks = 4;
  /// Of one rank's micro-batch at `micro_batches`; its stages share them.
  StageCosts costs;
  TransferCosts transfer;
  /// A bound on every rank's peak_memory.
  std::optional<double> memory;
};

struct WeighedSchedule {
  std::string
      name;  // `zb_v`, or of our own (list_scheduler.h): `searched, warm-up 5`; with folded stages `searched, V, ..`
  ScheduleShape shape;
  bool is_named = true;
  double makespan = 0;
  double span_bubble = 0;
  double peak_memory = 0;  // of the rank that needs the most
  bool fits = false;
  Schedule schedule;
};

/// Best first: those that fit by makespan, then those that do not by memory; of equal ones named ones first. InputError
/// without ranks or micro-batches, or with more of them and of chunks than are searched in a minute or so.
std::vector<WeighedSchedule> search_schedules(const SearchSpace& space);

/// What a schedule of the space is weighed by.
SimulationCosts costs_of(const SearchSpace& space, const Schedule& schedule);

}  // namespace heddle
