// The search over building blocks for any placement of stages: simple ones first, then others at random, then changes
// at random to the best of them. (folded_blocks.h has the published ones for stages folded into a V.)
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "parallel/pipeline/search/block_scheduler.h"
#include "parallel/pipeline/search/random_numbers.h"
#include "parallel/pipeline/search/search_watch.h"

namespace heddle {

class BlockSearch {
 public:
  /// Ends at the makespan `stop_at`, which cannot be beaten, or when the watch ends.
  BlockSearch(const SchedulingProblem& problem, double stop_at, SearchWatch& watch);

  /// Tries blocks whose micro-batch moves from rank to rank at constant speeds; down the ranks there are two speeds,
  /// one after the other (Qi et al. 2024). Each block is executed in several ways: the simplest first, then others at
  /// random. Schedules about `budget` actions.
  void try_family(std::int64_t budget, RandomNumbers& random);
  /// Changes the times and rules of the best candidates, and keeps a change that makes one no worse.
  void improve(std::int64_t budget, RandomNumbers& random);
  /// Adds the candidates of a search with another number of micro-batches.
  void adopt(const BlockSearch& other);

  bool found() const { return !best_.empty(); }
  double makespan() const { return best_.front().outcome.makespan; }
  /// The number of candidates that are kept: the best one first, then others that were improved.
  std::size_t size() const { return best_.size(); }
  Schedule schedule(std::size_t candidate = 0);

 private:
  /// forward[s]: the time from the F of stage s - 1 to that of s (of stage 0: from the block's begin); backward[s]:
  /// from the I of stage s + 1 to that of s (of the last stage: from its F).
  struct Steps {
    std::vector<double> forward;
    std::vector<double> backward;
  };
  /// In units of the mean time of an action. Down the ranks the first `changes_at` ranks have the first speed.
  struct Speeds {
    std::array<int, 2> forward_down{1, 1};
    std::array<int, 2> backward_down{1, 1};
    int changes_at = 0;
    int forward_up = 1;
    // The times between two stages of a rank, forward and backward, and between the last F and its I.
    int forward_turn = 1;
    int backward_turn = 1;
    int last = 1;
    bool with_transfers = true;
  };
  struct Candidate {
    Steps steps;
    BlockRules rules;
    BlockScheduler::Outcome outcome;
  };

  std::vector<Candidate> simplest() const;
  std::vector<Candidate> without_collisions() const;
  Candidate any_of_family(RandomNumbers& random) const;
  bool collides(const Speeds& speeds) const;
  Steps steps_of(const Speeds& speeds) const;
  double step(int from_stage, int to_stage, int down, int up, int turn, bool with_transfer) const;
  void place(Candidate& candidate) const;
  void try_out(Candidate candidate);
  void change(Candidate& candidate, RandomNumbers& random) const;
  bool is_better(const BlockScheduler::Outcome& a, const BlockScheduler::Outcome& b) const;
  void sort(std::size_t first);

  const SchedulingProblem& problem_;
  SearchWatch& watch_;
  double stop_at_;
  double slot_;       // the mean time of an action
  double period_;     // the time that a rank computes for a micro-batch
  double tolerance_;  // times that differ by less are the same
  BlockScheduler scheduler_;
  std::vector<Candidate> best_;
};

}  // namespace heddle
