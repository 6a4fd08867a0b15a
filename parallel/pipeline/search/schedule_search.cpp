#include "parallel/pipeline/search/schedule_search.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "framework/error.h"
#include "parallel/pipeline/search/list_scheduler.h"

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

/// The number of warm-ups that are tried with the list scheduler for a placement.
constexpr int max_warm_ups = 24;

/// The divisors and multiples that are tried.
std::vector<int> numbers_of_micro_batches(const SearchSpace& space) {
  std::vector<int> numbers;
  const int least = std::min(space.ranks, space.micro_batches);
  for (int m = least; m <= std::max(space.micro_batches, space.max_micro_batches); ++m)
    if (space.micro_batches % m == 0 || m % space.micro_batches == 0) numbers.push_back(m);
  return numbers;
}

/// About a minute, at about 10,000 cells per second.
void check_size(const SearchSpace& space) {
  constexpr int max_cells_weighed = 1 << 18;
  if (space.ranks < 1 || space.micro_batches < 1)
    fail<InputError>("search: expected at least 1 stage and 1 micro-batch, got {} and {}", space.ranks,
                     space.micro_batches);
  const double chunks = space.max_chunks;
  double cells = 0;
  for (const int micro_batches : numbers_of_micro_batches(space))
    cells += space.ranks * chunks * (chunks + 1) / 2 * micro_batches;
  if (cells > max_cells_weighed)
    fail<InputError>(
        "search: expected at most {} cells to try in all, got {:.0f} of {} stages, up to {} micro-batches and up to {} "
        "chunks",
        max_cells_weighed, cells, space.ranks, std::max(space.micro_batches, space.max_micro_batches),
        space.max_chunks);
}

class Search {
 public:
  explicit Search(const SearchSpace& space) : space_(space) {
    const StageCosts& costs = space.costs;
    rounding_ = 1e-9 * space.micro_batches * (costs.forward + costs.backward_input + costs.backward_weight);
  }

  std::vector<WeighedSchedule> run() {
    const std::vector<int> numbers = numbers_of_micro_batches(space_);
    for (const int micro_batches : numbers) weigh_named(micro_batches);
    for (const int micro_batches : numbers) {
      for (int chunks = 1; chunks <= space_.max_chunks; ++chunks)
        weigh_own(micro_batches, "searched", looped_stages(space_.ranks, chunks), chunks);
      if (space_.max_chunks >= 2) weigh_own(micro_batches, "searched, V", folded_stages(space_.ranks), 2);
    }
    std::stable_sort(weighed_.begin(), weighed_.end(),
                     [this](const WeighedSchedule& a, const WeighedSchedule& b) { return is_better(a, b); });
    return std::move(weighed_);
  }

 private:
  void weigh_named(int micro_batches) {
    for (const ScheduleType& type : schedule_types()) {
      const int most = std::min(type.max_chunks.value_or(space_.max_chunks), space_.max_chunks);
      for (int chunks = std::max(1, type.min_chunks); chunks <= most; ++chunks) {
        const ScheduleShape shape{.ranks = space_.ranks, .micro_batches = micro_batches, .chunks = chunks};
        std::optional<Schedule> schedule = made(type.name, shape);
        if (schedule) weighed_.push_back(weigh(std::string(type.name), shape, std::move(*schedule)));
      }
    }
  }

  /// Empty if the schedule is not made for this shape.
  static std::optional<Schedule> made(std::string_view name, const ScheduleShape& shape) {
    try {
      return make_schedule(name, shape);
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  /// The best schedule over all rules.
  void weigh_own(int micro_batches, std::string_view name, const std::vector<int>& rank_of, int chunks) {
    const ScheduleShape shape{.ranks = space_.ranks, .micro_batches = micro_batches, .chunks = chunks};
    const int most = std::min(micro_batches, 3 * space_.ranks);
    const int step = (most + max_warm_ups - 1) / max_warm_ups;
    std::optional<WeighedSchedule> best;
    for (int warm_up = most; warm_up >= 1; warm_up -= step)
      for (const double patience : {0.0, 0.5, 1.0})
        for (const bool takes_turns : {false, true}) {
          ListRules rules{.warm_up = warm_up, .patience = patience, .takes_turns = takes_turns};
          if (space_.memory) rules.memory = *space_.memory;
          std::optional<Schedule> made = own(rank_of, micro_batches, rules);
          if (!made) continue;
          WeighedSchedule weighed = weigh(fmt::format("{}, warm-up {}", name, warm_up), shape, std::move(*made));
          weighed.is_named = false;
          if (!best || is_better(weighed, *best)) best = std::move(weighed);
        }
    if (best) weighed_.push_back(std::move(*best));
  }

  std::optional<Schedule> own(const std::vector<int>& rank_of, int micro_batches, const ListRules& rules) const {
    const SimulationCosts costs = costs_of(space_, {.micro_batches = micro_batches, .rank_of = rank_of, .ranks = {}});
    return list_schedule(rank_of, micro_batches, costs.stages, costs.transfer(0, 1), rules);
  }

  WeighedSchedule weigh(std::string name, const ScheduleShape& shape, Schedule schedule) const {
    const Simulation simulation = simulate(schedule, costs_of(space_, schedule));
    const double peak = *std::max_element(simulation.peak_memory.begin(), simulation.peak_memory.end());
    return {.name = std::move(name),
            .shape = shape,
            .makespan = simulation.makespan,
            .span_bubble = simulation.timeline.span_bubble(),
            .peak_memory = peak,
            .fits = !space_.memory || peak <= *space_.memory * (1 + 1e-9),
            .schedule = std::move(schedule)};
  }

  bool is_better(const WeighedSchedule& a, const WeighedSchedule& b) const {
    if (a.fits != b.fits) return a.fits;
    // Sums in another order count as equal.
    const auto time = [&](const WeighedSchedule& w) {
      return rounding_ > 0 ? std::round(w.makespan / rounding_) : w.makespan;
    };
    const auto memory = [](const WeighedSchedule& w) { return std::round(w.peak_memory * 1e6); };
    return a.fits ? std::pair(time(a), memory(a)) < std::pair(time(b), memory(b))
                  : std::pair(memory(a), time(a)) < std::pair(memory(b), time(b));
  }

  const SearchSpace& space_;
  double rounding_ = 0;
  std::vector<WeighedSchedule> weighed_;
};

}  // namespace

SimulationCosts costs_of(const SearchSpace& space, const Schedule& schedule) {
  const double factor = static_cast<double>(space.micro_batches) / schedule.micro_batches;
  SimulationCosts costs{.stages = shared_by_stages(scaled(space.costs, factor), schedule.rank_of)};
  costs.transfer = [transfer =
                        TransferCosts{.latency = space.transfer.latency, .occupies = space.transfer.occupies * factor}](
                       int, int) { return transfer; };
  return costs;
}

std::vector<WeighedSchedule> search_schedules(const SearchSpace& space) {
  check_size(space);
  return Search(space).run();
}

}  // namespace heddle
