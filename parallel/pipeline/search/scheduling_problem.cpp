#include "parallel/pipeline/search/scheduling_problem.h"

#include <algorithm>
#include <utility>

namespace heddle {

double SchedulingProblem::mean_action_time() const {
  double sum = 0;
  for (const StageCosts& c : costs) sum += c.forward + c.backward_input + c.backward_weight;
  return sum / (3 * static_cast<double>(costs.size()));
}

bool fits(const SchedulingProblem& problem, const Schedule& schedule) {
  return std::all_of(schedule.ranks.begin(), schedule.ranks.end(), [&](const std::vector<Action>& list) {
    double held = 0;
    return std::all_of(list.begin(), list.end(), [&](const Action& action) {
      held += change_of_held(problem.costs[at_index(action.stage)], action.kind);
      return held <= problem.max_held();
    });
  });
}

SchedulingProblem scheduling_problem(int micro_batches, std::vector<int> rank_of, std::vector<StageCosts> costs,
                                     const TransferCosts& transfer, double memory) {
  SchedulingProblem problem{.micro_batches = micro_batches,
                            .rank_of = std::move(rank_of),
                            .costs = std::move(costs),
                            .transfer = transfer,
                            .memory = memory,
                            .stages_of = {},
                            .work = {}};
  const int ranks = *std::max_element(problem.rank_of.begin(), problem.rank_of.end()) + 1;
  problem.stages_of.resize(at_index(ranks));
  problem.work.resize(at_index(ranks));
  for (int stage = 0; stage < problem.stages(); ++stage) {
    const auto rank = at_index(problem.rank_of[at_index(stage)]);
    const StageCosts& c = problem.costs[at_index(stage)];
    problem.stages_of[rank].push_back(stage);
    problem.work[rank] += micro_batches * (c.forward + c.backward_input + c.backward_weight);
  }
  return problem;
}

}  // namespace heddle
