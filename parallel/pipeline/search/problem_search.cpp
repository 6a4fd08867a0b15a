#include "parallel/pipeline/search/problem_search.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "parallel/pipeline/search/folded_blocks.h"
#include "parallel/pipeline/search/folded_schedules.h"
#include "parallel/pipeline/search/list_scheduler.h"
#include "parallel/pipeline/search/makespan_bound.h"
#include "parallel/pipeline/search/reordering.h"

namespace heddle {

namespace {

/// How many values of ListRules::max_in_flight are tried.
constexpr int max_tried_values = 24;
/// The number of schedules that are reordered.
constexpr std::size_t max_starts = 3;

SchedulingProblem with_micro_batches(const SchedulingProblem& problem, int micro_batches) {
  return scheduling_problem(micro_batches, problem.rank_of, problem.costs, problem.transfer, problem.memory);
}

}  // namespace

ProblemSearch::ProblemSearch(SchedulingProblem problem, SearchWatch& watch)
    : watch_(&watch),
      problem_(std::make_unique<SchedulingProblem>(std::move(problem))),
      bound_(makespan_bound(*problem_)),
      tolerance_(1e-9 * problem_->mean_action_time()),
      blocks_(std::make_unique<BlockSearch>(*problem_, bound_, watch)) {
  if (problem_->micro_batches <= 3 * problem_->ranks()) return;
  short_problem_ = std::make_unique<SchedulingProblem>(with_micro_batches(*problem_, 2 * problem_->ranks()));
  short_blocks_ = std::make_unique<BlockSearch>(*short_problem_, makespan_bound(*short_problem_), watch);
}

bool ProblemSearch::is_finished() const {
  return best_ && best_->makespan <= bound_ + tolerance_;
}

void ProblemSearch::take(std::string how, double makespan, Schedule schedule) {
  if (best_ && makespan >= best_->makespan - tolerance_) return;
  best_ = {std::move(how), makespan, std::move(schedule)};
}

void ProblemSearch::try_lists() {
  const int max_tried = std::min(problem_->micro_batches, 3 * problem_->ranks());
  const int step = (max_tried + max_tried_values - 1) / max_tried_values;
  for (int max_in_flight = max_tried; max_in_flight >= 1 && !is_finished(); max_in_flight -= step)
    for (const double patience : {0.0, 0.5, 1.0})
      for (const bool alternates : {false, true}) {
        if (watch_->poll()) return;
        ++watch_->tried.list_schedules;
        std::optional<Schedule> schedule =
            list_schedule(*problem_, {.max_in_flight = max_in_flight, .patience = patience, .alternates = alternates});
        if (!schedule) continue;
        const double makespan = makespan_of(*problem_, *schedule);
        take(fmt::format("warm-up {}", max_in_flight), makespan, std::move(*schedule));
      }
}

void ProblemSearch::try_folded_blocks(std::int64_t actions) {
  if (problem_->rank_of != folded_stages(problem_->ranks())) return;
  const int ranks = problem_->ranks();
  const int repeated = std::max(problem_->micro_batches, 2 * ranks);
  const auto affordable = static_cast<std::size_t>(actions / (std::int64_t{3} * problem_->stages() * repeated));
  const bool tries_all = ranks <= max_ranks_of_all_blocks;  // whatever the effort
  if (!tries_all && affordable == 0) return;
  const std::vector<FoldedBlock> blocks = folded_blocks(ranks);
  const std::size_t tried = tries_all ? blocks.size() : std::min(blocks.size(), affordable);
  for (std::size_t i = 0; i < tried && !is_finished() && !watch_->poll(); ++i) {
    ++watch_->tried.blocks;
    for (Schedule& schedule : folded_schedules(blocks[i * blocks.size() / tried], problem_->micro_batches)) {
      if (!fits(*problem_, schedule)) continue;
      const double makespan = makespan_of(*problem_, schedule);
      take("block", makespan, std::move(schedule));
    }
  }
}

void ProblemSearch::take_block() {
  if (!blocks_->found()) return;
  const double makespan = blocks_->makespan();
  if (!best_ || makespan < best_->makespan - tolerance_) take("block", makespan, blocks_->schedule());
}

void ProblemSearch::begin(std::int64_t actions, RandomNumbers& random) {
  if (bound_ == infinity) return;
  try_lists();
  if (!is_finished()) try_folded_blocks(actions);
  if (is_finished()) return;
  if (short_blocks_) {
    short_blocks_->try_family(actions, random);
    blocks_->adopt(*short_blocks_);
  } else {
    blocks_->try_family(actions, random);
  }
  take_block();
}

void ProblemSearch::improve(std::int64_t actions, RandomNumbers& random) {
  if (!best_ || is_finished()) return;
  if (short_blocks_) {
    short_blocks_->improve(actions / 3, random);
    blocks_->adopt(*short_blocks_);
  }
  blocks_->improve(short_blocks_ ? actions / 6 : actions / 2, random);
  take_block();
  if (is_finished() || watch_->has_ended()) return;
  reorder_best(actions / 2, random);
}

/// From several schedules, because each one leads to other places.
void ProblemSearch::reorder_best(std::int64_t actions, RandomNumbers& random) {
  std::vector<Schedule> starts{best_->schedule};
  for (std::size_t i = 0; i < blocks_->size() && starts.size() < max_starts; ++i)
    if (Schedule start = blocks_->schedule(i); std::find(starts.begin(), starts.end(), start) == starts.end())
      starts.push_back(std::move(start));
  double temperature = 0.3;
  for (const Schedule& start : starts) {
    if (is_finished() || watch_->has_ended()) return;
    const AnnealingOptions options{
        .budget = actions / static_cast<std::int64_t>(starts.size()), .stop_at = bound_, .temperature = temperature};
    temperature *= 2;
    ReorderedSchedule reordered = reorder(*problem_, start, options, random, *watch_);
    take("reordered", reordered.makespan, std::move(reordered.schedule));
  }
}

}  // namespace heddle
