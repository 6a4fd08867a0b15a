#include "parallel/pipeline/search/schedule_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "framework/error.h"
#include "parallel/pipeline/search/problem_search.h"

namespace heddle {

namespace {

/// The costs of a rank's micro-batch if a step has a different number of them.
StageCosts scaled(StageCosts costs, double factor) {
  for (double StageCosts::*cost :
       {&StageCosts::forward, &StageCosts::backward_input, &StageCosts::backward_weight, &StageCosts::recompute,
        &StageCosts::loss, &StageCosts::activations, &StageCosts::weight_inputs, &StageCosts::input})
    costs.*cost *= factor;
  return costs;
}

/// The effort of a search: the number of actions that are scheduled, and bounds on how often a whole schedule is. It is
/// not a time, so that the same search gives the same result on every machine.
constexpr double max_actions = 4e7;
constexpr double max_schedulings = 4e5;
constexpr double min_schedulings = 1e4;

/// After a first look at all placements, the number of the best ones that are searched, and their share of the effort.
constexpr std::array<std::pair<std::size_t, double>, 2> rounds{{{4, 0.35}, {2, 0.35}}};

/// The divisors and multiples that are tried.
std::vector<int> numbers_of_micro_batches(const ScheduleSearchSpace& space) {
  std::vector<int> numbers;
  const int min_micro_batches = std::min(space.ranks, space.micro_batches);
  for (int m = min_micro_batches; m <= std::max(space.micro_batches, space.max_tried_micro_batches); ++m)
    if (space.micro_batches % m == 0 || m % space.micro_batches == 0) numbers.push_back(m);
  return numbers;
}

/// A minute for about 30,000 cells.
void check_size(const ScheduleSearchSpace& space) {
  constexpr int max_cells_tried = 1 << 18;
  if (space.ranks < 1 || space.micro_batches < 1)
    fail<InputError>("search: expected at least 1 rank and 1 micro-batch, got {} and {}", space.ranks,
                     space.micro_batches);
  const double chunks = space.max_chunks;
  double cells = 0;
  for (const int micro_batches : numbers_of_micro_batches(space))
    cells += space.ranks * chunks * (chunks + 1) / 2 * micro_batches;
  if (cells > max_cells_tried)
    fail<InputError>(
        "search: expected at most {} cells to try in all, got {:.0f} of {} ranks, up to {} micro-batches and up to {} "
        "chunks",
        max_cells_tried, cells, space.ranks, std::max(space.micro_batches, space.max_tried_micro_batches),
        space.max_chunks);
}

class Search {
 public:
  Search(const ScheduleSearchSpace& space, const ScheduleSearchOptions& options) : space_(space), watch_(options) {
    const StageCosts& costs = space.costs;
    rounding_ = 1e-9 * space.micro_batches * (costs.forward + costs.backward_input + costs.backward_weight);
  }

  ScheduleSearchResult run() {
    const std::vector<int> numbers = numbers_of_micro_batches(space_);
    for (const int micro_batches : numbers) evaluate_named(micro_batches);
    for (const int micro_batches : numbers)
      for (int chunks = 1; chunks <= space_.max_chunks; ++chunks) {
        add_placement(micro_batches, "searched", looped_stages(space_.ranks, chunks), chunks);
        if (chunks >= 2)
          add_placement(micro_batches, chunks == 2 ? "searched, V" : "searched, waves",
                        wave_stages(space_.ranks, chunks), chunks);
      }
    for (const StagePlacement& placement : placements_)
      watch_.tried.bound = std::min(watch_.tried.bound, placement.search.bound());
    search_placements();
    for (const StagePlacement& placement : placements_) evaluate_own(placement);
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [this](const ScheduleCandidate& a, const ScheduleCandidate& b) { return is_better(a, b); });
    return {.schedules = std::move(candidates_),
            .bound = watch_.tried.bound,
            .tried = watch_.tried,
            .is_interrupted = watch_.has_ended()};
  }

 private:
  void evaluate_named(int micro_batches) {
    for (const ScheduleType& type : schedule_types()) {
      // The bound is for one copy, and `memory` does not count the second one's parameters.
      if (type.copies > 1) continue;
      const int max_chunks = std::min(type.max_chunks.value_or(space_.max_chunks), space_.max_chunks);
      for (int chunks = std::max(1, type.min_chunks); chunks <= max_chunks; ++chunks) {
        const ScheduleShape shape{.ranks = space_.ranks, .micro_batches = micro_batches, .chunks = chunks};
        if (!candidates_.empty() && watch_.poll()) return;
        std::optional<Schedule> schedule = make_schedule_if_possible(type.name, shape);
        if (!schedule) continue;
        ++watch_.tried.named;
        candidates_.push_back(evaluate(std::string(type.name), shape, std::move(*schedule)));
        if (candidates_.back().fits) watch_.tried.best = std::min(watch_.tried.best, candidates_.back().makespan);
      }
    }
  }

  struct StagePlacement {
    std::string_view name;
    ScheduleShape shape;
    ProblemSearch search;
  };

  void add_placement(int micro_batches, std::string_view name, std::vector<int> rank_of, int chunks) {
    const ScheduleShape shape{.ranks = space_.ranks, .micro_batches = micro_batches, .chunks = chunks};
    const SimulationCosts costs = costs_of(space_, {.micro_batches = micro_batches, .rank_of = rank_of, .ranks = {}});
    placements_.push_back({name, shape,
                           ProblemSearch(scheduling_problem(micro_batches, std::move(rank_of), costs.stages,
                                                            costs.transfer(0, 1), space_.memory.value_or(infinity)),
                                         watch_)});
  }

  static double best_of(const StagePlacement& placement) {
    const auto& best = placement.search.best();
    return best ? best->makespan : infinity;
  }

  /// All placements a little, those with the smallest bound first, then the best ones to the end. One that cannot beat
  /// what has been found is left out.
  void search_placements() {
    double cells = 0;
    std::vector<StagePlacement*> order;
    for (StagePlacement& placement : placements_) {
      cells = std::max(cells, 3.0 * placement.search.problem().stages() * placement.shape.micro_batches);
      order.push_back(&placement);
    }
    std::stable_sort(order.begin(), order.end(), [](const StagePlacement* a, const StagePlacement* b) {
      return a->search.bound() < b->search.bound();
    });
    const double actions =
        space_.effort * std::min(std::max(max_actions, min_schedulings * cells), max_schedulings * cells);
    const double expected_placements = std::max(7.0, static_cast<double>(order.size()) / 3);
    RandomNumbers random(1);
    double best = infinity;
    for (StagePlacement* const placement : order) {
      if (watch_.poll()) return;
      if (placement->search.bound() >= best - rounding_ / space_.micro_batches) continue;
      ++watch_.tried.placements;
      placement->search.begin(static_cast<std::int64_t>(0.3 * actions / expected_placements), random);
      best = std::min(best, best_of(*placement));
      watch_.tried.best = std::min(watch_.tried.best, best);
    }
    for (const auto& [count, share] : rounds) {
      std::stable_sort(order.begin(), order.end(),
                       [](const StagePlacement* a, const StagePlacement* b) { return best_of(*a) < best_of(*b); });
      for (std::size_t i = 0; i < std::min(count, order.size()); ++i) {
        if (order[i]->search.bound() >= best_of(*order[0]) - rounding_ / space_.micro_batches) continue;
        if (watch_.poll()) return;
        order[i]->search.improve(static_cast<std::int64_t>(share * actions / static_cast<double>(count)), random);
        watch_.tried.best = std::min(watch_.tried.best, best_of(*order[i]));
      }
    }
  }

  void evaluate_own(const StagePlacement& placement) {
    const auto& best = placement.search.best();
    if (!best) return;
    candidates_.push_back(evaluate(fmt::format("{}, {}", placement.name, best->how), placement.shape, best->schedule));
    candidates_.back().is_named = false;
  }

  ScheduleCandidate evaluate(std::string name, const ScheduleShape& shape, Schedule schedule) const {
    const Simulation simulation = simulate(schedule, costs_of(space_, schedule));
    const double peak = *std::max_element(simulation.peak_memory.begin(), simulation.peak_memory.end());
    return {.name = std::move(name),
            .shape = shape,
            .makespan = simulation.step_time,
            .span_bubble = simulation.timeline.span_bubble(),
            .peak_memory = peak,
            .fits = !space_.memory || peak <= with_rounding_margin(*space_.memory),
            .schedule = std::move(schedule)};
  }

  bool is_better(const ScheduleCandidate& a, const ScheduleCandidate& b) const {
    if (a.fits != b.fits) return a.fits;
    // Sums in another order count as equal.
    const auto time = [&](const ScheduleCandidate& candidate) {
      return rounding_ > 0 ? std::round(candidate.makespan / rounding_) : candidate.makespan;
    };
    const auto memory = [](const ScheduleCandidate& candidate) { return std::round(candidate.peak_memory * 1e6); };
    return a.fits ? std::pair(time(a), memory(a)) < std::pair(time(b), memory(b))
                  : std::pair(memory(a), time(a)) < std::pair(memory(b), time(b));
  }

  const ScheduleSearchSpace& space_;
  SearchWatch watch_;
  double rounding_ = 0;
  std::vector<ScheduleCandidate> candidates_;
  std::vector<StagePlacement> placements_;
};

}  // namespace

SimulationCosts costs_of(const ScheduleSearchSpace& space, const Schedule& schedule) {
  const double factor = static_cast<double>(space.micro_batches) / schedule.micro_batches;
  SimulationCosts costs{.stages = costs_per_stage(scaled(space.costs, factor), schedule.rank_of)};
  costs.transfer =
      [transfer = TransferCosts{.latency = space.transfer.latency, .occupancy = space.transfer.occupancy * factor}](
          int, int) { return transfer; };
  return costs;
}

ScheduleSearchResult search_schedules(const ScheduleSearchSpace& space, const ScheduleSearchOptions& options) {
  check_size(space);
  return Search(space, options).run();
}

}  // namespace heddle
