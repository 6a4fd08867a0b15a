// Budgets of single ranks, on plan.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "experiments/training/run.h"
#include "tests/support/layouts.h"

namespace heddle::test {

TEST_CASE("each rank has its own budget, and ranks past the end of the list have the common one") {
  Experiment experiment = small_experiment(20, 16, 2, DType::f32);
  experiment.device = DeviceType::plan;
  experiment.mesh.pp = 4;
  const VariantResult whole = run_variant(experiment, "whole");
  REQUIRE(whole.status == VariantResult::Status::ok);
  for (const RankResult& rank : whole.ranks) experiment.ranks.memory_budget.push_back(rank.peak.total());
  CHECK(run_variant(experiment, "exact").status == VariantResult::Status::ok);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    Experiment tight = experiment;
    --tight.ranks.memory_budget[rank];
    const VariantResult result = run_variant(tight, "tight");
    CHECK(result.status == VariantResult::Status::out_of_memory);
    CHECK(result.error.starts_with(fmt::format("rank {}: out of memory: asked for ", rank)));
  }
  experiment.memory_budget = experiment.ranks.memory_budget.back();
  experiment.ranks.memory_budget.pop_back();
  experiment.ranks.memory_budget.front() = 0;  // no limit
  CHECK(run_variant(experiment, "common").status == VariantResult::Status::ok);
  --experiment.memory_budget;
  CHECK(run_variant(experiment, "common, tight").error.starts_with("rank 3: out of memory: asked for "));
}

TEST_CASE("a cut by memory gives a rank with a quarter of the memory fewer bytes") {
  Experiment experiment = small_experiment(20, 16, 2, DType::f32);
  experiment.device = DeviceType::plan;
  experiment.model = {.type = ModelType::mlp, .embedding = 64, .hidden = std::vector<std::int64_t>(15, 64)};
  experiment.model.stages.by = BalanceBy::memory;
  experiment.mesh.pp = 4;
  const auto peak_of = [&](std::size_t rank) {
    const VariantResult result = run_variant(experiment, "cut");
    REQUIRE(result.status == VariantResult::Status::ok);
    return static_cast<double>(result.ranks[rank].peak.total());
  };
  const double even = peak_of(1);
  experiment.memory_budget = 4'000'000;
  experiment.ranks.memory_budget = {4'000'000, 1'000'000};
  CHECK(peak_of(1) < 0.6 * even);
  // The others have no limit, and can hold everything.
  experiment.memory_budget = 0;
  experiment.ranks.memory_budget = {0, static_cast<std::int64_t>(0.6 * even)};
  CHECK(peak_of(1) < 0.6 * even);
}

}  // namespace heddle::test
