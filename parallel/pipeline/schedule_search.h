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
  /// Weighed: the divisors and multiples of it in [ranks, most_micro_batches]; a step's samples stay the same, so that
  /// costs of computing and memory scale by micro_batches / m, and transfers' occupancy too.
  int micro_batches = 1;
  int most_micro_batches = 1;
  int most_chunks = 4;
  /// Of one rank's micro-batch at `micro_batches` and v = 1; a stage of v chunks takes 1 / v of it.
  StageCosts costs;
  TransferCosts transfer;
  /// A bound on every rank's peak_memory.
  std::optional<double> memory;
};

struct WeighedSchedule {
  std::string name;  // `zb_v`, or `searched, warm-up 5`
  ScheduleShape shape;
  double makespan = 0;
  double span_bubble = 0;
  double peak_memory = 0;
  bool fits = false;
  Schedule schedule;
};

/// Best first: those that fit by makespan, then those that do not by memory.
std::vector<WeighedSchedule> search_schedules(const SearchSpace& space);

}  // namespace heddle
