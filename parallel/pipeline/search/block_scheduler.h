// Schedules made by repeating a building block (Qi et al. 2024, "Pipeline parallelism with controllable memory"): the
// times at which one micro-batch's F and I would begin, and the period after which those of the next one follow, give
// each action its priority. Each rank then executes its actions as early as it can, about in this order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "parallel/pipeline/search/scheduling_problem.h"

namespace heddle {

/// Times are in the units of the costs.
struct BlockRules {
  /// When the first micro-batch's F and I begin in each stage.
  std::vector<double> forward;
  std::vector<double> backward_input;
  /// The time between two micro-batches.
  double period = 1;
  /// An F may come before an action of its rank that the block has earlier, by at most this time.
  double lookahead = infinity;
  /// The largest number of micro-batches between the first F and the last I of the model.
  int max_in_flight = std::numeric_limits<int>::max();
  /// A rank that could compute a W waits instead for an F or I that is ready within this part of the W's time.
  double patience = 0;
  /// A rank that could compute an F or I waits instead for one that the block has earlier and that is ready within this
  /// part of the action's time.
  double order_patience = 0;
  /// A W comes before an F or I that the block has later than the W's I by more than this.
  double weight_delay = infinity;
};

class BlockScheduler {
 public:
  explicit BlockScheduler(const SchedulingProblem& problem);

  struct Outcome {
    double makespan = 0;
    /// The sum of the times at which the ranks end.
    double sum_of_ends = 0;
  };

  /// Empty if there is not enough memory, or if the makespan would exceed `limit`, which saves the rest of the work.
  std::optional<Outcome> run(const BlockRules& rules, double limit = infinity);
  /// The schedule of the last run, if it gave an outcome.
  Schedule schedule() const;
  /// The number of actions that have been scheduled in all runs: a measure of the time that they took.
  std::int64_t actions_scheduled() const { return actions_scheduled_; }

 private:
  struct Stage {
    // The next micro-batch of each kind of action.
    int forward = 0;
    int backward_input = 0;
    int backward_weight = 0;
  };
  struct Rank {
    double free = 0;
    double work_left = 0;
  };
  struct Choice {
    ActionKind kind = ActionKind::forward;
    int stage = 0;
    double begin = infinity;
    double priority = infinity;  // the smallest one is first
  };
  enum class Fit { now, after_weights, never };

  void reset(const BlockRules& rules);
  double priority(ActionKind kind, int stage, int micro_batch) const;
  double earliest_in_block(int rank) const;
  Fit fit(int rank, std::size_t chunk) const;
  Choice choose(int rank);
  void collect(int rank, Choice& without_weights);
  Choice best_collected() const;
  Choice next_weight(int rank) const;
  bool takes_weight(const Choice& weight, const Choice& other, const Choice& without_weights) const;
  void execute(int rank);
  void deliver(int from_rank, int to_stage, int micro_batch, double end, std::vector<double>& arrivals);
  std::size_t cell(int stage, int micro_batch) const;

  const SchedulingProblem& problem_;
  double rounding_;  // times that differ by less are the same
  const BlockRules* rules_ = nullptr;
  std::vector<double> input_arrival_;     // per stage and micro-batch
  std::vector<double> gradient_arrival_;  // the same
  std::vector<double> link_free_;         // for each ordered pair of ranks
  std::vector<Stage> stages_;
  std::vector<Rank> ranks_;
  std::vector<Choice> choices_;    // one per rank
  std::vector<Choice> collected_;  // reused by choose
  std::vector<std::vector<Action>> lists_;
  std::int64_t actions_scheduled_ = 0;
};

}  // namespace heddle
