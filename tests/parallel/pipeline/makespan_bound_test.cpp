// The lower bound on makespans: its parts, and that it stays below the optima that a solver has proved.
#include "parallel/pipeline/search/makespan_bound.h"

#include <limits>

#include <doctest/doctest.h>

#include "tests/parallel/pipeline/optimal_makespans.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test {

namespace {

constexpr double unlimited_memory = std::numeric_limits<double>::infinity();

double bound(std::vector<int> rank_of, int micro_batches, double memory, const StageCosts& rank = {},
             double latency = 0) {
  std::vector<StageCosts> costs = costs_per_stage(rank, rank_of);
  return makespan_bound(
      scheduling_problem(micro_batches, std::move(rank_of), std::move(costs), {.latency = latency}, memory));
}

}  // namespace

TEST_CASE("bound: a micro-batch goes forward and back, and the busiest rank computes all of them") {
  CHECK(bound({0, 1, 2}, 1, unlimited_memory) == close_to(3 + 3 + 1));
  CHECK(bound({0, 1, 2}, 1, unlimited_memory, {}, 0.5) == close_to(3 + 3 + 1 + 4 * 0.5));
  // Rank 2 begins after two F.
  CHECK(bound({0, 1, 2}, 9, unlimited_memory) == close_to(2 + 9 * 3));
  CHECK(bound(wave_stages(3, 2), 9, unlimited_memory) == close_to(1 + 9 * 3));
}

TEST_CASE("bound: memory makes a rank wait for the first I, and for what each micro-batch occupies") {
  // Rank 0 has room for two F before the first I, which comes after three F and two I of the others.
  CHECK(bound({0, 1, 2}, 9, 2) >= 5 - 2 + 9 * 3);
  // One micro-batch at a time: F to W is 3 F, 3 I and W on rank 0.
  CHECK(bound({0, 1, 2}, 9, 1) == close_to(9 * 7));
  CHECK(bound({0, 1, 2}, 9, 1.99) == close_to(9 * 7));
  CHECK(bound({0, 1, 2}, 9, 0.5) == std::numeric_limits<double>::infinity());
  // Both stages of a rank are held at once.
  CHECK(bound(wave_stages(3, 2), 9, 0.5) == std::numeric_limits<double>::infinity());
}

TEST_CASE("bound: costs of zero") {
  const StageCosts nothing{.forward = 0, .backward_input = 0, .backward_weight = 0};
  CHECK(bound({0, 1}, 4, 1, nothing) == 0);
  const StageCosts no_weights{.backward_weight = 0, .weight_inputs = 0};
  CHECK(bound({0, 1}, 4, unlimited_memory, no_weights) == close_to(1 + 4 * 2 + 1));
}

TEST_CASE("bound: it is never above the optimum, and infinite where nothing fits") {
  int steps = 0;
  for (const test::OptimalMakespan& row : test::optimal_makespans()) {
    CAPTURE(row.line);
    const double proved = bound(row.rank_of, row.micro_batches, row.memory, row.costs, row.latency);
    if (row.optimum)
      CHECK(proved <= *row.optimum * (1 + 1e-9));
    else
      CHECK(proved == std::numeric_limits<double>::infinity());
    ++steps;
  }
  CHECK(steps > 100);
}

}  // namespace heddle::test
