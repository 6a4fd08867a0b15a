// Estimates of layouts, compared with their plans.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/layout_search/layout_figures.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/program/small_experiments.h"

namespace heddle::test {

TEST_CASE("estimates of times agree with plans within a tenth, and those of bytes within a third") {
  const Experiment experiment = planned_experiment(R"({
    "name": "resnet", "mesh": {"pp": 4}, "threads": 1, "links": {"latency": 2e-5, "bandwidth": 5e9},
    "data": {"type": "synthetic_identities", "identities": 40, "image": [3, 64, 64]},
    "model": {"type": "resnet18", "embedding": 128}, "head": {"classes": 4000}, "pipeline": {"schedule": "1f1b"},
    "train": {"batch": 64, "micro_batches": 4}})");
  const LayoutSpace space(experiment, 4,
                          {AllowedChange::recompute, AllowedChange::offload, AllowedChange::norm_groups});
  LayoutPlanner planner(open_datasets(experiment));
  LayoutEstimator estimator(space, planner.plan_serially(experiment));
  const std::vector<heddle::Layout> starts = space.starts();
  for (std::size_t i = 0; i < starts.size(); i += 7) {
    CAPTURE(to_string(starts[i]));
    const LayoutFigures estimate = estimator.estimate(starts[i]);
    const LayoutFigures plan = planner.plan(space.experiment(starts[i]));
    CHECK(estimate.seconds == close_to(plan.seconds).epsilon(0.1));
    CHECK(static_cast<double>(estimate.bytes) == close_to(static_cast<double>(plan.bytes)).epsilon(0.34));
  }
}

TEST_CASE("the estimates of many micro-batches, of which few are simulated, agree with plans") {
  Experiment experiment = small_mlp();
  experiment.train.batch = 256;
  const LayoutSpace space(experiment, 4, {AllowedChange::micro_batches});
  LayoutPlanner planner(open_datasets(experiment));
  LayoutEstimator estimator(space, planner.plan_serially(experiment));
  int count = 0;
  for (const heddle::Layout& layout : space.starts()) {
    if (layout.mesh.pp == 1 || layout.micro_batches != 64) continue;
    ++count;
    CAPTURE(to_string(layout));
    CHECK(estimator.estimate(layout).seconds == close_to(planner.plan(space.experiment(layout)).seconds).epsilon(0.1));
  }
  CHECK(count > 20);
}

TEST_CASE("the estimates of small micro-batches, with large layers or a large head, agree with plans") {
  Experiment experiment = small_mlp();
  experiment.train.batch = 256;
  experiment.profile.flops_per_second = 5e10;
  experiment.links.within_node = {.latency = 1e-6, .bandwidth = 1e10};
  for (const bool is_head : {false, true}) {
    experiment.model.hidden = std::vector<std::int64_t>(4, is_head ? 64 : 1024);
    if (is_head) experiment.head = {.classes = 200'000};
    const LayoutSpace space(experiment, 4, {AllowedChange::micro_batches});
    LayoutPlanner planner(open_datasets(experiment));
    LayoutEstimator estimator(space, planner.plan_serially(experiment));
    const std::vector<heddle::Layout> starts = space.starts();
    for (std::size_t i = 0; i < starts.size(); i += is_head ? 29 : 7) {
      if (starts[i].mesh.pp == 1 || starts[i].micro_batches > 32) continue;
      CAPTURE(to_string(starts[i]));
      CHECK(estimator.estimate(starts[i]).seconds ==
            close_to(planner.plan(space.experiment(starts[i])).seconds).epsilon(0.1));
    }
  }
}

TEST_CASE("estimates of a pipeline whose first layers are frozen agree with plans") {
  for (const std::vector<std::string>& frozen : {std::vector<std::string>{"layers.0*", "layers.1*"}, {"layers.0*"}})
    for (const Recompute recompute : all_of<Recompute>) {
      Experiment experiment = small_mlp();
      experiment.profile.flops_per_second = 1e9;
      experiment.links.within_node = {.latency = 1e-6, .bandwidth = 1e10};
      experiment.mesh = {.dp = 1, .pp = 4, .tp = 1};
      experiment.pipeline.schedule = "1f1b";
      experiment.pipeline.recompute = recompute;
      experiment.train.freeze = frozen;
      CAPTURE(frozen.size());
      CAPTURE(name_of(recompute));
      const LayoutSpace space(experiment, 4, {});
      LayoutPlanner planner(open_datasets(experiment));
      LayoutEstimator estimator(space, planner.plan_serially(experiment));
      CHECK(estimator.estimate(space.written()).seconds == close_to(planner.plan(experiment).seconds).epsilon(0.1));
    }
}

TEST_CASE("estimates of a replicated head, which the optimizer steps, agree with plans") {
  Experiment experiment = small_mlp();
  experiment.profile.flops_per_second = 1e13;  // the update is most of the step
  experiment.links.within_node = {.latency = 1e-9, .bandwidth = 1e15};
  experiment.head = {.classes = 20'000, .parallel = HeadParallel::replicated};
  experiment.mesh = {.dp = 2, .pp = 1, .tp = 1};
  const LayoutSpace space(experiment, 2, {});
  LayoutPlanner planner(open_datasets(experiment));
  LayoutEstimator estimator(space, planner.plan_serially(experiment));
  CHECK(estimator.estimate(space.written()).seconds == close_to(planner.plan(experiment).seconds).epsilon(0.1));
}

TEST_CASE("a rank is as full as the part of its budget that it holds, and one without a budget is empty") {
  Experiment experiment = small_mlp();
  experiment.mesh = {.dp = 2, .pp = 2, .tp = 1};
  const auto budgets = [&](std::int64_t common, std::vector<std::int64_t> own) {
    experiment.memory_budget = common;
    experiment.ranks.memory_budget = std::move(own);
    return RankBudgets(experiment, mesh_of(experiment));
  };
  CHECK(budgets(0, {}).fullness(3, 50) == 50);
  CHECK(budgets(0, {0, 0, 0, 0}).fullness(3, 50) == 50);
  CHECK(budgets(100, {}).fullness(3, 50) == 0.5);
  CHECK(budgets(100, {200}).fullness(0, 50) == 0.25);
  CHECK(budgets(100, {200}).fullness(1, 50) == 0.5);
  CHECK(budgets(100, {200, 0}).fullness(1, 50) == 0);
  // Ranks 0 and 2 have the first stage, 1 and 3 the second.
  CHECK(budgets(100, {200, 0}).tightest(0) == 2);
  CHECK(budgets(100, {200, 0}).tightest(1) == 3);
  CHECK(budgets(0, {0, 70, 0, 60}).tightest(1) == 3);
  CHECK(budgets(0, {0, 50, 0, 60}).tightest(1) == 1);
}

}  // namespace heddle::test
