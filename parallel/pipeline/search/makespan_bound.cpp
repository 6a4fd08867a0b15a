#include "parallel/pipeline/search/makespan_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <queue>
#include <vector>

namespace heddle {

namespace {

/// The times of a micro-batch that has all ranks to itself: when each of its actions begins, and the time from the
/// action's end to the end of the last one that must follow.
struct LoneMicroBatch {
  explicit LoneMicroBatch(const SchedulingProblem& problem)
      : forward(at_index(problem.stages())), backward(forward), after_forward(forward), after_backward(forward) {
    const int last = problem.stages() - 1;
    const auto hop = [&](int a, int b) {
      return problem.rank_of[at_index(a)] == problem.rank_of[at_index(b)]
                 ? 0
                 : problem.transfer.occupancy + problem.transfer.latency;
    };
    const std::vector<StageCosts>& costs = problem.costs;
    for (int s = 1; s <= last; ++s)
      forward[at_index(s)] = forward[at_index(s - 1)] + costs[at_index(s - 1)].forward + hop(s - 1, s);
    backward[at_index(last)] = forward[at_index(last)] + costs[at_index(last)].forward;
    for (int s = last - 1; s >= 0; --s)
      backward[at_index(s)] = backward[at_index(s + 1)] + costs[at_index(s + 1)].backward_input + hop(s + 1, s);
    for (int s = 0; s <= last; ++s) {
      after_backward[at_index(s)] = costs[at_index(s)].backward_weight;
      if (s > 0)
        after_backward[at_index(s)] =
            std::max(after_backward[at_index(s)],
                     hop(s, s - 1) + costs[at_index(s - 1)].backward_input + after_backward[at_index(s - 1)]);
    }
    after_forward[at_index(last)] = costs[at_index(last)].backward_input + after_backward[at_index(last)];
    for (int s = last - 1; s >= 0; --s)
      after_forward[at_index(s)] = hop(s, s + 1) + costs[at_index(s + 1)].forward + after_forward[at_index(s + 1)];
  }

  std::vector<double> forward;
  std::vector<double> backward;
  std::vector<double> after_forward;
  std::vector<double> after_backward;
};

struct MachineJob {
  double begin = 0;
  double seconds = 0;
  double after = 0;
};

/// The least makespan of one machine whose jobs may be interrupted: of the jobs that have become available, it always
/// executes the one with the longest time after it (Jackson 1955, Carlier 1982).
double one_machine(std::vector<MachineJob> jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const MachineJob& a, const MachineJob& b) { return a.begin < b.begin; });
  const auto is_less_urgent = [](const MachineJob& a, const MachineJob& b) { return a.after < b.after; };
  std::priority_queue<MachineJob, std::vector<MachineJob>, decltype(is_less_urgent)> ready(is_less_urgent);
  double time = 0;
  double makespan = 0;
  for (std::size_t next = 0; next < jobs.size() || !ready.empty();) {
    if (ready.empty()) time = std::max(time, jobs[next].begin);
    for (; next < jobs.size() && jobs[next].begin <= time; ++next) ready.push(jobs[next]);
    MachineJob job = ready.top();
    ready.pop();
    const double until = next < jobs.size() ? jobs[next].begin : infinity;
    const double run = std::min(job.seconds, until - time);
    time += run;
    job.seconds -= run;
    if (job.seconds > 0)
      ready.push(job);
    else
      makespan = std::max(makespan, time + job.after);
  }
  return makespan;
}

/// The first or the last `seconds` of a step, in which a rank is idle for at least `idle`.
struct IdleWindow {
  double seconds = 0;
  double idle = 0;
};

/// One rank of a problem.
class BoundedRank {
 public:
  BoundedRank(const SchedulingProblem& problem, const LoneMicroBatch& alone, int rank)
      : problem_(problem),
        alone_(alone),
        rank_(rank),
        stages_(problem.stages_of[at_index(rank)]),
        memory_(usable_memory()) {}

  double bound() const {
    if (sum(stages_.size(), [](const StageCosts& c) { return c.activations; }) > problem_.max_held()) return infinity;
    return std::max(one_machine(jobs()), occupied_memory());
  }

  /// The bound for a step that takes at least `min_makespan`: two windows that together are not longer do not overlap.
  double bound_with_idle_time(double min_makespan) const {
    double best = min_makespan;
    for (const IdleWindow& first : windows_at_begin())
      for (const IdleWindow& last : windows_at_end())
        if (first.seconds + last.seconds <= min_makespan)
          best = std::max(best, problem_.work[at_index(rank_)] + first.idle + last.idle);
    return best;
  }

 private:
  const StageCosts& costs(std::size_t chunk) const { return problem_.costs[at_index(stages_[chunk])]; }
  double begin(const std::vector<double>& times, std::size_t chunk) const { return times[at_index(stages_[chunk])]; }

  template <class Cost>
  double sum(std::size_t chunks, const Cost& cost) const {
    double total = 0;
    for (std::size_t k = 0; k < chunks; ++k) total += cost(costs(k));
    return total;
  }

  /// If all stages take the same memory, only whole multiples of it can be used.
  double usable_memory() const {
    const double one = costs(0).activations;
    for (std::size_t k = 0; k < stages_.size(); ++k)
      if (costs(k).activations != one || costs(k).weight_inputs != one) return problem_.max_held();
    return one > 0 && problem_.memory < infinity ? one * std::floor(problem_.max_held() / one) : infinity;
  }

  double slowest(double StageCosts::*cost, int first_stage, int last_stage) const {
    double max_cost = 0;
    for (int s = first_stage; s <= last_stage; ++s) max_cost = std::max(max_cost, problem_.costs[at_index(s)].*cost);
    return max_cost;
  }

  std::vector<MachineJob> jobs() const {
    std::vector<MachineJob> all;
    const int last = problem_.stages() - 1;
    for (std::size_t k = 0; k < stages_.size(); ++k) {
      const StageCosts& c = costs(k);
      // Each stage computes one micro-batch after another.
      const double before_forward = slowest(&StageCosts::forward, 0, stages_[k]);
      const double after_backward = slowest(&StageCosts::backward_input, 0, stages_[k]);
      const double before_backward =
          std::max(slowest(&StageCosts::forward, 0, last), slowest(&StageCosts::backward_input, stages_[k], last));
      const double after_forward =
          std::max(slowest(&StageCosts::forward, stages_[k], last), slowest(&StageCosts::backward_input, 0, last));
      for (int i = 0; i < problem_.micro_batches; ++i) {
        const int left = problem_.micro_batches - 1 - i;
        all.push_back({begin(alone_.forward, k) + i * before_forward, c.forward,
                       begin(alone_.after_forward, k) + left * after_forward});
        all.push_back({begin(alone_.backward, k) + i * before_backward, c.backward_input,
                       begin(alone_.after_backward, k) + left * after_backward});
        all.push_back({begin(alone_.backward, k) + i * before_backward + c.backward_input, c.backward_weight, 0});
      }
    }
    return all;
  }

  double per_memory(double seconds, double memory) const {
    if (seconds == 0) return 0;
    return memory > 0 ? seconds / memory * memory_ : infinity;
  }

  /// The work on micro-batches that have left the first `chunks` stages of the rank, whose activations are all held.
  double work_beyond(std::size_t chunks) const {
    const double each = sum(chunks, [](const StageCosts& c) { return c.activations; });
    double micro_batches = problem_.micro_batches;
    if (each > 0 && memory_ < infinity) micro_batches = std::min(micro_batches, std::floor(problem_.max_held() / each));
    double one = 0;
    for (std::size_t k = chunks; k < stages_.size(); ++k)
      one += costs(k).forward + costs(k).backward_input + costs(k).backward_weight;
    return micro_batches * one;
  }

  void add(std::vector<IdleWindow>& windows, double seconds, double work) const {
    if (work < seconds) windows.push_back({seconds, seconds - work});
  }

  /// Before a stage's first I, the stages up to it have only executed F, whose activations are all held.
  std::vector<IdleWindow> windows_at_begin() const {
    std::vector<IdleWindow> windows{{}};
    add(windows, begin(alone_.forward, 0), 0);
    double max_work = 0;
    double first = 0;
    for (std::size_t k = 0; k < stages_.size(); ++k) {
      max_work = std::max(max_work, per_memory(costs(k).forward, costs(k).activations));
      first += costs(k).forward;
      const double all = problem_.micro_batches * first;
      add(windows, begin(alone_.backward, k), std::min(max_work, all) + work_beyond(k + 1));
      if (k + 1 == stages_.size()) continue;
      // Before the next stage's first F, room for one micro-batch of the later stages has been left.
      const double later = sum(stages_.size(), [](const StageCosts& c) { return c.activations; }) -
                           sum(k + 1, [](const StageCosts& c) { return c.activations; });
      const double share = memory_ < infinity ? std::max(0.0, 1 - later / memory_) : 1;
      add(windows, begin(alone_.forward, k + 1), std::min(max_work * share, all));
    }
    return windows;
  }

  /// After a stage's last F, the stages up to it only execute I and W of micro-batches that are held.
  std::vector<IdleWindow> windows_at_end() const {
    std::vector<IdleWindow> windows{{}};
    double max_work = 0;
    for (std::size_t k = 0; k < stages_.size(); ++k)
      max_work = std::max(max_work, per_memory(costs(k).backward_weight, costs(k).weight_inputs));
    double all = problem_.micro_batches * sum(stages_.size(), [](const StageCosts& c) { return c.backward_weight; });
    // After the last I of the first stage there are only W.
    add(windows, begin(alone_.after_backward, 0), std::min(max_work, all));
    for (std::size_t k = 0; k < stages_.size(); ++k) {
      const StageCosts& c = costs(k);
      max_work = std::max(max_work, per_memory(c.backward_input + c.backward_weight, c.activations));
      all += problem_.micro_batches * c.backward_input;
      add(windows, begin(alone_.after_forward, k), std::min(max_work, all) + work_beyond(k + 1));
    }
    return windows;
  }

  double occupied_memory() const {
    if (memory_ == infinity || memory_ <= 0) return 0;
    double occupied = 0;
    for (std::size_t k = 0; k < stages_.size(); ++k) {
      const StageCosts& c = costs(k);
      occupied += c.activations * (begin(alone_.backward, k) - begin(alone_.forward, k) + c.backward_input) +
                  c.weight_inputs * c.backward_weight;
    }
    return begin(alone_.forward, 0) + problem_.micro_batches * occupied / memory_;
  }

  const SchedulingProblem& problem_;
  const LoneMicroBatch& alone_;
  int rank_;
  const std::vector<int>& stages_;
  double memory_;
};

}  // namespace

double makespan_bound(const SchedulingProblem& problem) {
  const LoneMicroBatch alone(problem);
  std::vector<BoundedRank> ranks;
  for (int rank = 0; rank < problem.ranks(); ++rank) ranks.emplace_back(problem, alone, rank);
  double bound = 0;
  for (const BoundedRank& rank : ranks) bound = std::max(bound, rank.bound());
  // A larger bound proves that longer windows do not overlap.
  for (double before = -1; before < bound && bound < infinity;) {
    before = bound;
    for (const BoundedRank& rank : ranks) bound = rank.bound_with_idle_time(bound);
  }
  return bound;
}

}  // namespace heddle
