#include "experiments/training/prediction/prediction.h"

#include <doctest/doctest.h>

#include "experiments/training/run.h"
#include "parallel/pipeline/schedules.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/planned_pipeline.h"

namespace heddle::test {
namespace {

double apart(const Experiment& experiment, StageProfiles& profiles) {
  RunSettings settings;
  settings.profiles = &profiles;
  const VariantResult result = run_variant(experiment, "a", settings);
  REQUIRE(result.status == VariantResult::Status::ok);
  REQUIRE(result.predicted_seconds);
  return result.predicted_seconds->median / step_seconds(result)->median - 1;
}

TEST_CASE("on plan a step takes as long as its schedule predicts, by all kinds of schedules, heads and speeds") {
  StageProfiles profiles;
  for (const char* schedule : {"naive", "gpipe", "1f1b"})
    for (const Recompute recompute : {Recompute::never, Recompute::always})
      for (const AxisSet over : {last_stage, every_axis}) {
        CAPTURE(schedule);
        CAPTURE(static_cast<int>(recompute));
        Experiment experiment = planned_pipeline();
        experiment.pipeline.schedule = schedule;
        experiment.pipeline.recompute = recompute;
        experiment.head.over = over;
        CHECK(std::abs(apart(experiment, profiles)) < 0.03);
        experiment.ranks.speed = {1, 0.5};
        CHECK(std::abs(apart(experiment, profiles)) < 0.03);
      }
}

TEST_CASE("on plan a step takes as long as predicted where some micro-batches have a whole B, and others I and W") {
  StageProfiles profiles;
  Experiment experiment = planned_layers();
  experiment.pipeline.schedule = "dualpipe_v";
  CHECK(std::abs(apart(experiment, profiles)) < 0.03);
}

TEST_CASE("on plan a step takes as long as predicted with two copies of each stage, whose gradients are added up") {
  StageProfiles profiles;
  Experiment experiment = planned_layers();
  for (const char* schedule : {"chimera", "dualpipe"})
    for (const AxisSet over : {last_stage, every_axis})
      for (const double bandwidth : {1e9, 2e10}) {
        CAPTURE(schedule);
        CAPTURE(to_string(over));
        CAPTURE(bandwidth);
        experiment.pipeline.schedule = schedule;
        experiment.head.over = over;
        experiment.links.within_node.bandwidth = bandwidth;
        CHECK(std::abs(apart(experiment, profiles)) < 0.03);
      }
}

TEST_CASE("on plan a step takes as long as predicted where activations are offloaded, over fast and slow links") {
  StageProfiles profiles;
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1"})
    for (const Offload offload : {Offload::half, Offload::all})
      for (const double bandwidth : {1e9, 2e10}) {
        CAPTURE(schedule);
        CAPTURE(name_of(offload));
        CAPTURE(bandwidth);
        Experiment experiment = planned_pipeline();
        experiment.pipeline.schedule = schedule;
        experiment.pipeline.offload = offload;
        experiment.links.host.bandwidth = bandwidth;
        experiment.head.over = last_stage;
        CHECK(std::abs(apart(experiment, profiles)) < 0.03);
      }
}

TEST_CASE("without pipeline.predict no stage is measured, and the step time is not predicted") {
  StageProfiles profiles;
  Experiment experiment = planned_pipeline();
  experiment.pipeline.predict = false;
  RunSettings settings;
  settings.profiles = &profiles;
  const VariantResult result = run_variant(experiment, "a", settings);
  REQUIRE(result.status == VariantResult::Status::ok);
  CHECK(!result.predicted_seconds);
  CHECK(profiles.empty());
}

TEST_CASE("on plan a step clipped by the norm, for which a head computes its gradients twice, takes as predicted") {
  StageProfiles profiles;
  Experiment experiment = planned_pipeline();
  experiment.head.classes = 200'000;
  experiment.train.clip.norm = 1;
  for (const AxisSet over : {last_stage, every_axis})
    for (const bool stash : {false, true}) {
      CAPTURE(to_string(over));
      CAPTURE(stash);
      experiment.head.over = over;
      experiment.head.logits = Logits::fused;
      experiment.head.stash = stash;
      CHECK(std::abs(apart(experiment, profiles)) < 0.03);
    }
}

TEST_CASE("on plan a step of one micro-batch takes as predicted, where ranks along tp may update the head within H") {
  StageProfiles profiles;
  Experiment experiment = planned_pipeline();
  experiment.model = {.type = ModelType::mlp, .embedding = 64, .hidden = {8, 8}};
  experiment.head.classes = 200'000;
  experiment.head.logits = Logits::fused;
  experiment.train.micro_batches = 1;
  for (const int stages : {1, 2}) {
    CAPTURE(stages);
    experiment.mesh = {.dp = 1, .pp = stages, .tp = 2};
    CHECK(std::abs(apart(experiment, profiles)) < 0.03);
  }
}

TEST_CASE("on plan a step takes as long as predicted where copies of a head add up their gradients") {
  StageProfiles profiles;
  Experiment experiment = planned_pipeline();
  // A backbone so small that the sums of its own gradients, which are not predicted, take next to no time.
  experiment.model = {.type = ModelType::mlp, .embedding = 64, .hidden = {8, 8}};
  experiment.mesh = {.dp = 2, .pp = 2, .tp = 1};
  experiment.head.classes = 200'000;
  experiment.links.within_node.bandwidth = 1e8;
  experiment.head.logits = Logits::fused;
  for (const AxisSet& over : {AxisSet{Axis::dp}, AxisSet{Axis::pp}, AxisSet{Axis::tp}, every_axis})
    for (const double norm : {0.0, 1.0}) {
      // Products of many rows take longer than the steps of the classes, and those of a few rows do not.
      for (const std::int64_t batch : {24, 6144}) {
        CAPTURE(to_string(over));
        CAPTURE(norm);
        CAPTURE(batch);
        experiment.train.batch = batch;
        experiment.head.over = over;
        experiment.train.clip.norm = norm;
        CHECK(std::abs(apart(experiment, profiles)) < 0.03);
      }
    }
}

TEST_CASE(
    "on plan a step ends within 5 % of its prediction where replicas sum their gradients, in buckets and in shards") {
  StageProfiles profiles;
  for (const std::int64_t pp : {1, 2})
    for (const std::int64_t bucket_bytes : {std::int64_t{1} << 20, std::int64_t{25} << 20})
      for (const ShardedState shard : {ShardedState::none, ShardedState::optimizer})
        for (const double bandwidth : {1e8, 1e9}) {
          CAPTURE(pp);
          CAPTURE(bucket_bytes);
          CAPTURE(name_of(shard));
          CAPTURE(bandwidth);
          Experiment experiment = planned_pipeline();
          experiment.mesh = {.dp = 4, .pp = pp, .tp = 1};
          experiment.train.micro_batches = 4;
          experiment.train.bucket_bytes = bucket_bytes;
          experiment.train.shard = shard;
          experiment.links.within_node.bandwidth = bandwidth;
          CHECK(std::abs(apart(experiment, profiles)) < 0.05);
        }
}

Experiment by_columns_and_rows(std::int64_t pp, double bandwidth) {
  Experiment experiment = planned_pipeline();
  experiment.model = {.type = ModelType::mlp, .embedding = 512, .hidden = {512, 512, 512, 512}};
  experiment.model.placements = {{.layers = "layers.0", .parallel = Parallel::column, .over = Axis::tp},
                                 {.layers = "layers.1", .parallel = Parallel::row, .over = Axis::tp},
                                 {.layers = "layers.2", .parallel = Parallel::column, .over = Axis::tp},
                                 {.layers = "layers.3", .parallel = Parallel::row, .over = Axis::tp}};
  experiment.mesh = {.dp = 1, .pp = pp, .tp = 2};
  experiment.train.batch = 768;
  experiment.links.within_node.bandwidth = bandwidth;
  return experiment;
}

TEST_CASE("on plan a step ends within 5 % of its prediction where ranks share layers by columns and by rows") {
  StageProfiles profiles;
  for (const std::int64_t pp : {1, 2})
    for (const double bandwidth : {1e9, 1e10}) {
      CAPTURE(pp);
      CAPTURE(bandwidth);
      CHECK(std::abs(apart(by_columns_and_rows(pp, bandwidth), profiles)) < 0.05);
    }
}

TEST_CASE("on plan a step over slow links ends within 10 % of its prediction, also where segments send once more") {
  StageProfiles profiles;
  const PipelineConfig kept = planned_pipeline().pipeline;
  PipelineConfig sqrt = kept;
  sqrt.recompute = Recompute::sqrt;
  PipelineConfig marked = kept;
  marked.recompute_layers = {"layers.*"};
  for (const std::int64_t pp : {1, 2})
    for (const PipelineConfig& pipeline : {kept, sqrt, marked}) {
      CAPTURE(pp);
      CAPTURE(name_of(pipeline.recompute));
      CAPTURE(pipeline.recompute_layers.size());
      Experiment experiment = by_columns_and_rows(pp, 1e8);
      experiment.pipeline = pipeline;
      CHECK(std::abs(apart(experiment, profiles)) < 0.1);
    }
}

TEST_CASE("on plan a step takes as long as predicted where a rank of the last replica is slow") {
  StageProfiles profiles;
  Experiment experiment = planned_pipeline();
  experiment.mesh = {.dp = 2, .pp = 2, .tp = 1};
  experiment.ranks.speed = {1, 1, 0.5, 1};
  CHECK(std::abs(apart(experiment, profiles)) < 0.03);
}

TEST_CASE("a forward pass takes as long as its schedule predicts") {
  StageProfiles profiles;
  Experiment experiment = planned_pipeline();
  experiment.train.forward_only = true;
  CHECK(std::abs(apart(experiment, profiles)) < 0.01);
}

TEST_CASE("variants of a study share the profiles that do not depend on what they differ in") {
  StageProfiles profiles;
  Experiment experiment = planned_pipeline();
  (void)apart(experiment, profiles);
  CHECK(profiles.size() == 1);
  experiment.links.within_node.latency = 1;
  experiment.ranks.jitter = 0.1;
  (void)apart(experiment, profiles);
  CHECK(profiles.size() == 1);
  // The order of a schedule decides what is in the caches.
  experiment.pipeline.schedule = "gpipe";
  (void)apart(experiment, profiles);
  CHECK(profiles.size() == 2);
  experiment.pipeline.recompute = Recompute::always;
  (void)apart(experiment, profiles);
  CHECK(profiles.size() == 3);
  experiment.train.micro_batches = 12;
  (void)apart(experiment, profiles);
  CHECK(profiles.size() == 4);
}

TEST_CASE("the times of the applications, with their parts of the optimizer's, add up to those of the stages") {
  StageProfiles profiles;
  const Experiment experiment = planned_pipeline();
  const auto dataset = make_dataset(experiment.data, {1});
  const auto model = std::make_shared<ModelSpec>(make_model(experiment.model, dataset->image()));
  const auto plan = plan_run(experiment, model, mesh_of(experiment));
  const StageProfile profile = profile_stages(experiment, *dataset, *plan, profiles).front();
  const std::vector<double> seconds = profile_applications(experiment, *dataset, model, profiles);
  REQUIRE(seconds.size() == model->applications().size());
  double all_elements = 0;
  for (const auto& application : model->applications())
    all_elements += static_cast<double>(application.layer->parameter_elements());
  for (int stage = 0; stage < plan->stages(); ++stage) {
    double sum = 0;
    double elements = 0;
    for (std::int64_t i = plan->range(stage).begin; i < plan->range(stage).end(); ++i) {
      sum += seconds[static_cast<std::size_t>(i)];
      elements += static_cast<double>(model->applications()[static_cast<std::size_t>(i)].layer->parameter_elements());
    }
    const StageCosts& costs = profile.later[static_cast<std::size_t>(stage)];
    const double optimizer = profile.optimizer * elements / all_elements / 6;  // of each micro-batch
    CHECK(costs.forward + costs.backward_input + costs.backward_weight + optimizer == close_to(sum).epsilon(0.03));
  }
}

TEST_CASE("a cut by measured time knows the head: a large one on the last stage leaves it fewer layers") {
  StageProfiles profiles;
  Experiment experiment = planned_pipeline();
  experiment.model.stages.by = BalanceBy::time;
  experiment.head.classes = 100'000;
  const auto dataset = make_dataset(experiment.data, {1});
  const auto model = std::make_shared<ModelSpec>(make_model(experiment.model, dataset->image()));
  const auto last_begin = [&](const AxisSet& over) {
    experiment.head.over = over;
    const std::vector<double> seconds = profile_applications(experiment, *dataset, model, profiles);
    return plan_run(experiment, model, mesh_of(experiment), seconds)->cut.begins.back();
  };
  CHECK(last_begin(last_stage) > last_begin(every_axis));
}

TEST_CASE(
    "the ideal speedup over naive is the formula's, for any chunks; recomputation in naive's gaps gains nothing") {
  const auto ideal = [](const char* name, const ScheduleShape& shape, Recompute recompute = Recompute::never) {
    return ideal_speedup(with_communication(with_recompute(make_schedule(name, shape), recompute)), recompute);
  };
  for (const int p : {2, 4, 8})
    for (const int m : {8, 16, 32}) {
      const ScheduleShape shape{.ranks = p, .micro_batches = m};
      CHECK(ideal("naive", shape) == close_to(1));
      for (const char* name : {"gpipe", "1f1b"}) CHECK(ideal(name, shape) == close_to(m * p / (m + p - 1.0)));
    }
  // naive: four forwards, one recomputation that no rank's waiting hides, four backwards; gpipe: three ranks' forwards
  // and backwards beside eight micro-batches of a whole rank.
  const ScheduleShape shape{.ranks = 4, .micro_batches = 8};
  CHECK(ideal("gpipe", shape, Recompute::always) == close_to(8 * 13.0 / (3 * 3 + 8 * 4)));
  CHECK(ideal("naive", shape, Recompute::always) == close_to(1));
  // A head over all ranks delays none of them.
  for (const LossForm head : {LossForm::on_last_stage, LossForm::on_all})
    CHECK(ideal_speedup(with_communication(with_loss(one_f_one_b(shape), head)), Recompute::never) ==
          close_to(8 * 4 / (8 + 4 - 1.0)));
  CHECK(ideal_speedup(forward_only({0, 1, 2, 3}, 4), Recompute::never) == close_to(4 * 4.0 / (4 + 3)));
}

TEST_CASE("ranks keep for backward what the formulas say, and only inputs where the rest is recomputed") {
  const ScheduleShape shape{.ranks = 4, .micro_batches = 8};
  const auto kept = [&](const char* name, Recompute recompute = Recompute::never) {
    return kept_micro_batches(
        with_communication(with_loss(with_recompute(make_schedule(name, shape), recompute), LossForm::on_all)));
  };
  const std::vector<double> none(4, 0);
  CHECK(kept("gpipe").values == std::vector<double>(4, 8));
  CHECK(kept("gpipe").inputs == none);
  CHECK(kept("1f1b").values == std::vector<double>{4, 3, 2, 1});
  CHECK(kept("zb_h1").values == std::vector<double>{4, 3, 2, 1});
  CHECK(kept("gpipe", Recompute::always).values == std::vector<double>(4, 1));
  CHECK(kept("gpipe", Recompute::always).inputs == std::vector<double>(4, 8));
  CHECK(kept_micro_batches(with_offload(make_schedule("gpipe", shape), Offload::all)).values ==
        std::vector<double>(4, 2));
}

}  // namespace
}  // namespace heddle::test
