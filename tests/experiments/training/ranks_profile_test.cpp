#include "experiments/training/prediction/ranks_profile.h"

#include <doctest/doctest.h>

#include "experiments/training/prediction/prediction.h"
#include "experiments/training/run.h"
#include "tests/support/planned_pipeline.h"

namespace heddle::test {
namespace {

/// Profiles the ranks on plan, where all times are known, and compares the step that they predict with the planned one.
double apart_of_ranks(Experiment experiment) {
  const auto dataset = make_dataset(experiment.data, {1});
  const auto model = std::make_shared<ModelSpec>(make_model(experiment.model, dataset->image()));
  const auto plan = plan_run(experiment, model, mesh_of(experiment));
  const double predicted = predicted_seconds(experiment, *plan, profile_ranks(experiment, *dataset, *plan)).median;
  experiment.pipeline.predict = false;
  const VariantResult result = run_variant(experiment, "a");
  REQUIRE(result.status == VariantResult::Status::ok);
  return predicted / step_seconds(result)->median - 1;
}

TEST_CASE("profiled ranks predict the step of a pipeline, with equal and unequal speeds") {
  for (const char* schedule : {"naive", "gpipe", "1f1b"})
    for (const AxisSet over : {last_stage, every_axis})
      for (const std::vector<double>& speed : {std::vector<double>{}, std::vector<double>{1, 0.5}}) {
        CAPTURE(schedule);
        CAPTURE(to_string(over));
        CAPTURE(speed.size());
        Experiment experiment = planned_pipeline();
        experiment.pipeline.schedule = schedule;
        experiment.head.over = over;
        experiment.ranks.speed = speed;
        CHECK(std::abs(apart_of_ranks(experiment)) < 0.03);
      }
}

TEST_CASE("a prediction is the median and the fastest of what the profiled steps predict") {
  const Experiment experiment = planned_pipeline();
  const auto dataset = make_dataset(experiment.data, {1});
  const auto model = std::make_shared<ModelSpec>(make_model(experiment.model, dataset->image()));
  const auto plan = plan_run(experiment, model, mesh_of(experiment));
  const StageProfile fast = profile_ranks(experiment, *dataset, *plan).front();
  StageProfile slow = fast;
  slow.optimizer *= 2;
  StageProfile slowest = fast;
  slowest.optimizer *= 3;
  const auto seconds = [&](const StageProfile& step) {
    return predicted_seconds(experiment, *plan, std::vector{step}).median;
  };
  const StepSeconds all = predicted_seconds(experiment, *plan, std::vector{slow, fast, slowest});
  CHECK(all.median == seconds(slow));
  CHECK(all.minimum == seconds(fast));
  CHECK(all.maximum == seconds(slowest));
  CHECK(all.minimum < all.median);
}

TEST_CASE("profiled ranks predict steps of chunks, of two copies of each stage, of offloading and of recomputation") {
  for (const char* schedule : {"interleaved", "dualpipe_v", "chimera"}) {
    CAPTURE(schedule);
    Experiment experiment = planned_layers();
    experiment.pipeline.schedule = schedule;
    CHECK(std::abs(apart_of_ranks(experiment)) < 0.03);
  }
  Experiment experiment = planned_pipeline();
  experiment.head.over = last_stage;
  experiment.pipeline.offload = Offload::all;
  CHECK(std::abs(apart_of_ranks(experiment)) < 0.03);
  experiment.pipeline.offload = Offload::never;
  experiment.pipeline.recompute = Recompute::always;
  CHECK(std::abs(apart_of_ranks(experiment)) < 0.03);
  experiment.pipeline.recompute = Recompute::never;
  experiment.train.forward_only = true;
  CHECK(std::abs(apart_of_ranks(experiment)) < 0.03);
}

TEST_CASE("profiled ranks predict the step of a large head, on every set of ranks") {
  Experiment experiment = planned_pipeline();
  experiment.model = {.type = ModelType::mlp, .embedding = 64, .hidden = {8, 8}};
  experiment.mesh = {.dp = 2, .pp = 2, .tp = 1};
  experiment.head.classes = 200'000;
  experiment.train.batch = 6144;
  experiment.links.within_node.bandwidth = 1e8;
  experiment.head.logits = Logits::fused;
  for (const AxisSet& over : {AxisSet{Axis::dp}, AxisSet{Axis::pp}, AxisSet{Axis::tp}, every_axis})
    for (const double norm : {0.0, 1.0}) {
      CAPTURE(to_string(over));
      CAPTURE(norm);
      experiment.head.over = over;
      experiment.train.clip.norm = norm;
      CHECK(std::abs(apart_of_ranks(experiment)) < 0.03);
    }
}

TEST_CASE("profiled ranks predict the step of replicas, whose batch they may share unevenly") {
  for (const ShardedState shard : {ShardedState::none, ShardedState::optimizer})
    for (const std::int64_t batch : {96, 90}) {
      CAPTURE(name_of(shard));
      CAPTURE(batch);
      Experiment experiment = planned_pipeline();
      experiment.mesh = {.dp = 4, .pp = 2, .tp = 1};
      experiment.train.batch = batch;
      experiment.train.micro_batches = 4;
      experiment.train.shard = shard;
      CHECK(std::abs(apart_of_ranks(experiment)) < 0.05);
    }
}

TEST_CASE("profiled ranks predict the step of ranks that share layers along tp and dp, one of them slow") {
  for (const Axis axis : {Axis::tp, Axis::dp})
    for (const std::vector<double>& speed : {std::vector<double>{}, std::vector<double>{1, 1, 1, 0.5}}) {
      CAPTURE(name_of(axis));
      CAPTURE(speed.size());
      Experiment experiment = planned_pipeline();
      experiment.model = {.type = ModelType::mlp, .embedding = 512, .hidden = {512, 512, 512, 512}};
      experiment.model.placements = {{.layers = "layers.0", .parallel = Parallel::column, .over = axis},
                                     {.layers = "layers.1", .parallel = Parallel::row, .over = axis},
                                     {.layers = "layers.2", .parallel = Parallel::column, .over = axis},
                                     {.layers = "layers.3", .parallel = Parallel::row, .over = axis}};
      experiment.mesh = {.dp = axis == Axis::dp ? 2 : 1, .pp = 2, .tp = axis == Axis::tp ? 2 : 1};
      experiment.train.batch = 768;
      experiment.ranks.speed = speed;
      CHECK(std::abs(apart_of_ranks(experiment)) < 0.05);
    }
}

TEST_CASE("profiled ranks predict the step of replicas whose slow ranks have different stages") {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const bool shares_layers : {false, true}) {
      CAPTURE(schedule);
      CAPTURE(shares_layers);
      Experiment experiment = planned_pipeline();
      experiment.model = {.type = ModelType::mlp, .embedding = 512, .hidden = {512, 512, 512, 512}};
      if (shares_layers)
        experiment.model.placements = {{.layers = "layers.0", .parallel = Parallel::column, .over = Axis::dp},
                                       {.layers = "layers.1", .parallel = Parallel::row, .over = Axis::dp},
                                       {.layers = "layers.2", .parallel = Parallel::column, .over = Axis::dp},
                                       {.layers = "layers.3", .parallel = Parallel::row, .over = Axis::dp}};
      experiment.mesh = {.dp = 2, .pp = 2, .tp = 1};
      experiment.pipeline.schedule = schedule;
      experiment.train.batch = 768;
      experiment.ranks.speed = {0.5, 1, 1, 0.5};
      CHECK(std::abs(apart_of_ranks(experiment)) < 0.05);
    }
}

TEST_CASE("profiled ranks predict a forward pass of replicas, which do not wait for each other") {
  // A run reports the steps of the replica of rank 0, which is the slowest or as slow as the other one here.
  for (const std::vector<double>& speed :
       {std::vector<double>{}, std::vector<double>{0.5, 0.5}, std::vector<double>{0.5, 1, 1, 0.5}}) {
    CAPTURE(speed.size());
    Experiment experiment = planned_layers();
    experiment.mesh = {.dp = 2, .pp = 2, .tp = 1};
    experiment.train.forward_only = true;
    experiment.ranks.speed = speed;
    CHECK(std::abs(apart_of_ranks(experiment)) < 0.03);
  }
}

TEST_CASE("profiled ranks predict the step where a slow rank along tp shares no layer with the others") {
  for (const std::vector<double>& speed : {std::vector<double>{1, 0.5}, std::vector<double>{0.5, 1}}) {
    CAPTURE(speed.front());
    Experiment experiment = planned_pipeline();
    experiment.model = {.type = ModelType::mlp, .embedding = 512, .hidden = {512, 512, 512, 512}};
    experiment.model.placements = {{.layers = "*", .parallel = Parallel::data, .over = Axis::tp}};
    experiment.mesh = {.dp = 1, .pp = 2, .tp = 2};
    experiment.train.batch = 768;
    experiment.ranks.speed = speed;
    CHECK(std::abs(apart_of_ranks(experiment)) < 0.05);
  }
}

TEST_CASE("profiled ranks predict a forward pass by the first copy of each stage") {
  for (const char* schedule : {"chimera", "dualpipe"}) {
    CAPTURE(schedule);
    Experiment experiment = planned_layers();
    experiment.pipeline.schedule = schedule;
    experiment.train.forward_only = true;
    CHECK(std::abs(apart_of_ranks(experiment)) < 0.03);
  }
}

TEST_CASE("profiled ranks predict the step where a stage is shared over dp, and a rank of another stage is slow") {
  Experiment experiment = planned_pipeline();
  experiment.model = {.type = ModelType::mlp, .embedding = 512, .hidden = {512, 512, 512, 512}};
  experiment.model.placements = {{.layers = "layers.2", .parallel = Parallel::column, .over = Axis::dp},
                                 {.layers = "layers.3", .parallel = Parallel::row, .over = Axis::dp}};
  experiment.mesh = {.dp = 2, .pp = 2, .tp = 1};
  experiment.train.batch = 768;
  experiment.ranks.speed = {0.5};
  CHECK(std::abs(apart_of_ranks(experiment)) < 0.05);
}

TEST_CASE("stages that exceed the budget are not predicted, and the run says so") {
  Experiment experiment = planned_pipeline();
  experiment.device = DeviceType::cpu;
  experiment.clock = ClockType::virtual_time;
  experiment.memory_budget = 1 << 16;
  const VariantResult result = run_variant(experiment, "a");
  CHECK(result.status == VariantResult::Status::out_of_memory);
  CHECK(!result.predicted_seconds);
}

TEST_CASE("on a virtual clock the stages are measured on all ranks of the run") {
  Experiment experiment = planned_pipeline();
  experiment.train.batch = 24;
  experiment.mesh = {.dp = 2, .pp = 2, .tp = 1};
  experiment.clock = ClockType::virtual_time;
  const auto dataset = make_dataset(experiment.data, {1});
  const auto model = std::make_shared<ModelSpec>(make_model(experiment.model, dataset->image()));
  const auto plan = plan_run(experiment, model, mesh_of(experiment));
  for (const DeviceType device : {DeviceType::plan, DeviceType::cpu}) {
    StageProfiles profiles;
    experiment.device = device;
    const std::vector<StageProfile>& steps = profile_stages(experiment, *dataset, *plan, profiles);
    CHECK(steps.size() == (device == DeviceType::plan ? 1 : 5));
    for (const StageProfile& step : steps) {
      CHECK(step.is_of_ranks == (device == DeviceType::cpu));
      CHECK(step.loss > 0);
      CHECK(step.optimizer > 0);
      REQUIRE(step.later.size() == 2);
      for (const StageCosts& costs : step.later) {
        CHECK(costs.forward > 0);
        CHECK(costs.backward_input > 0);
      }
    }
  }
}

}  // namespace
}  // namespace heddle::test
