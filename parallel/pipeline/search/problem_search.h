// The search for the best schedule of one placement of stages and one number of micro-batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "parallel/pipeline/search/block_search.h"
#include "parallel/pipeline/search/scheduling_problem.h"

namespace heddle {

class ProblemSearch {
 public:
  /// When the watch ends, each part of the search keeps what it has found.
  ProblemSearch(SchedulingProblem problem, SearchWatch& watch);

  struct Found {
    std::string how;  // `warm-up 5` (list scheduling with max_in_flight = 5), `block` or `reordered`
    double makespan = 0;
    Schedule schedule;
  };

  const SchedulingProblem& problem() const { return *problem_; }
  double bound() const { return bound_; }
  /// Whether nothing better can be found.
  bool is_finished() const;
  const std::optional<Found>& best() const { return best_; }

  /// Tries the list scheduler with all of its rules, and the families of building blocks.
  void begin(std::int64_t actions, RandomNumbers& random);
  /// Improves the blocks, and reorders the best schedules. Takes about the time of scheduling `actions` actions.
  void improve(std::int64_t actions, RandomNumbers& random);

 private:
  void try_lists();
  void try_folded_blocks(std::int64_t actions);
  void take_block();
  void reorder_best(std::int64_t actions, RandomNumbers& random);
  void take(std::string how, double makespan, Schedule schedule);

  SearchWatch* watch_;
  std::unique_ptr<SchedulingProblem> problem_;
  /// The problem with fewer micro-batches, if it has many: the same blocks are good for both.
  std::unique_ptr<SchedulingProblem> short_problem_;
  double bound_;
  double tolerance_;
  std::unique_ptr<BlockSearch> blocks_;
  std::unique_ptr<BlockSearch> short_blocks_;
  std::optional<Found> best_;
};

}  // namespace heddle
