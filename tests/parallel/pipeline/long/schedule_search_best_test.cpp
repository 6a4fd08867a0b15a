// The search against the makespans of others, and against proved optima.
#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "parallel/pipeline/search/schedule_search.h"
#include "tests/parallel/pipeline/optimal_makespans.h"

namespace heddle::test {

namespace {

ScheduleSearchSpace searched_space(int ranks, int micro_batches, double memory) {
  ScheduleSearchSpace space;
  space.ranks = ranks;
  space.micro_batches = micro_batches;
  space.max_tried_micro_batches = micro_batches;
  space.memory = memory;
  return space;
}

}  // namespace

TEST_CASE("search: never above the building blocks of Qi et al. 2024 in their program, nor above list scheduling") {
  struct Row {
    int ranks, micro_batches;
    double memory;
    double theirs;          // with F = I = W = 1 and c = 0, unless costs are given
    double list_scheduled;  // with up to four stages per rank
    StageCosts costs{};
    double latency = 0;
  };
  constexpr double unknown = std::numeric_limits<double>::infinity();
  for (const Row& row :
       {Row{8, 32, 4, 107.5, 109.5}, Row{8, 32, 4.5, 106, 107.5}, Row{8, 32, 5, 104.5, 105.25},
        Row{8, 32, 5.5, 103, 103.75}, Row{8, 32, 6, 101.5, 100.25}, Row{8, 32, 6.5, 101, 100.75},
        Row{8, 32, 7, 100.5, 98.75}, Row{8, 16, 4, 59.5, 61.5}, Row{8, 16, 5, 56.5, 57.5}, Row{8, 24, 4, 83.5, 85.5},
        Row{8, 24, 5, 80.5, 79.75}, Row{10, 40, 4, 137.5, 168}, Row{16, 64, 8, 215.5, 220.5},
        Row{16, 64, 10, 209.5, unknown}, Row{16, 64, 9, 5810837.5, unknown, {29935, 29621, 19388}, 535}}) {
    CAPTURE(row.ranks);
    CAPTURE(row.micro_batches);
    CAPTURE(row.memory);
    ScheduleSearchSpace space = searched_space(row.ranks, row.micro_batches, row.memory);
    space.costs = row.costs;
    space.transfer.latency = row.latency;
    space.effort = 0.1;  // a tenth is enough
    const ScheduleSearchResult result = search_schedules(space);
    const ScheduleCandidate& best = result.schedules.front();
    CHECK(best.fits);
    const double others = std::min(row.theirs, row.list_scheduled);
    CHECK(best.makespan <= others + 1e-9);
    if (others > result.bound + 1e-9) CHECK(best.makespan < others - 1e-9);
    CHECK(best.makespan >= result.bound * (1 - 1e-9));
  }
}

TEST_CASE("search: it reaches the proved optima of small steps") {
  // The best placement with up to two stages per rank, by the rest of the row.
  std::map<std::string, test::OptimalMakespan> best;
  for (test::OptimalMakespan& row : test::optimal_makespans()) {
    const std::string step = row.line.substr(0, row.line.find_first_of("LV"));
    const auto [found, is_new] = best.emplace(step, row);
    if (row.optimum && (!found->second.optimum || *row.optimum < *found->second.optimum)) found->second = row;
  }
  for (const auto& [step, row] : best) {
    CAPTURE(step);
    ScheduleSearchSpace space = searched_space(row.ranks, row.micro_batches, row.memory);
    space.max_chunks = 2;
    space.costs = row.costs;
    space.transfer.latency = row.latency;
    const ScheduleSearchResult result = search_schedules(space);
    REQUIRE(row.optimum);
    // Fewer micro-batches, which the search tries too, may be even faster.
    CHECK(result.schedules.front().makespan <= *row.optimum * (1 + 1e-9));
  }
}

}  // namespace heddle::test
