// Searches for the best schedule under a bound on memory, among all named ones and those made for the given costs: by
// list scheduling, by repeating building blocks, and by reordering the best of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/search/search_watch.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {

struct ScheduleSearchSpace {
  int ranks = 1;
  /// Its divisors and multiples m from `ranks` (or itself, if that is less) to max_tried_micro_batches are tried. A
  /// step has the same samples with all of them, so that the costs of computing, the memory and a transfer's
  /// `occupancy` scale by micro_batches / m.
  int micro_batches = 1;
  int max_tried_micro_batches = 1;
  /// Stages per rank.
  int max_chunks = default_max_chunks;
  /// The costs of one micro-batch on one rank at `micro_batches`, which its stages share.
  StageCosts costs;
  TransferCosts transfer;
  /// A bound on every rank's peak_memory.
  std::optional<double> memory;
  /// How much is tried: 1 takes a few seconds with 8 ranks and 32 micro-batches.
  double effort = 1;
};

struct ScheduleCandidate {
  /// `zb_v`, or for one that the search made `searched, warm-up 5` (list scheduling), `searched, block` (a building
  /// block repeated) or `searched, reordered`; with folded stages `searched, V, ..`, with more folds `searched, waves,
  /// ..`.
  std::string name;
  ScheduleShape shape;
  bool is_named = true;
  double makespan = 0;
  double span_bubble = 0;
  double peak_memory = 0;  // on the rank that needs the most
  bool fits = false;
  Schedule schedule;
};

struct ScheduleSearchResult {
  /// The best schedules first: those that fit, sorted by makespan, then those that do not fit, sorted by memory; of
  /// equal ones the named ones come first.
  std::vector<ScheduleCandidate> schedules;
  /// No schedule that fits has a smaller makespan, with any of the placements of stages and numbers of micro-batches
  /// that are searched (see makespan_bound). Infinity if none can fit.
  double bound = 0;
  ScheduleSearchProgress tried;
  /// Whether it was ended early. The schedules are then the best ones so far, and the bound is the same.
  bool is_interrupted = false;
};

/// InputError if there are no ranks or micro-batches, or more of them and of chunks than can be searched in about
/// ten minutes. A search that is not interrupted gives the same result on every machine.
ScheduleSearchResult search_schedules(const ScheduleSearchSpace& space, const ScheduleSearchOptions& options = {});

/// The costs with which a schedule of the space is simulated.
SimulationCosts costs_of(const ScheduleSearchSpace& space, const Schedule& schedule);

}  // namespace heddle
