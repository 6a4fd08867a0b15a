// A rank sends in a step exactly the bytes of the formulas.
#include <doctest/doctest.h>

#include "experiments/training/run.h"
#include "tests/support/devices.h"
#include "tests/support/layouts.h"

namespace heddle::test::sent_bytes_test {

namespace {

/// On plan, whose bytes are cpu's.
Experiment planned(const ModelConfig& model, int dp, int tp) {
  Experiment experiment = test::small_experiment(12, 16, 8, DType::f32);
  experiment.device = DeviceType::plan;
  experiment.data.synthetic_identities.image = {3, 16, 16};
  experiment.model = model;
  experiment.model.embedding = 8;
  experiment.mesh = {.dp = dp, .tp = tp};
  return experiment;
}

void check_sent(const Experiment& experiment) {
  const VariantResult result = run_variant(experiment, "planned", {});
  REQUIRE(result.error.empty());
  REQUIRE(result.sent_in_step.has_value());
  CHECK(result.sent_in_step->counted == result.sent_in_step->formula.total());
}

}  // namespace

TEST_CASE(
    "rank 0 sends in a step the bytes of the formulas: micro-batches, clipping, either head, a sharded optimizer") {
  Experiment experiment = planned({.type = ModelType::mlp, .hidden = {16}, .embedding_norm = true}, 4, 1);
  check_sent(experiment);
  experiment.train.micro_batches = 2;
  experiment.train.clip.norm = 1;
  check_sent(experiment);
  experiment.head.logits = Logits::gathered;
  check_sent(experiment);
  experiment.train.shard = ShardedState::optimizer;
  check_sent(experiment);
  experiment.model.synchronized_norms = true;
  check_sent(experiment);
}

TEST_CASE("there are no formulas where layers are computed again, or micro-batches differ in size") {
  const auto has_formula = [](const Experiment& experiment) {
    const VariantResult result = run_variant(experiment, "planned", {});
    REQUIRE(result.error.empty());
    return result.sent_in_step.has_value();
  };
  Experiment experiment = planned({.type = ModelType::mlp, .hidden = {16}}, 2, 2);
  experiment.train.micro_batches = 2;
  CHECK(has_formula(experiment));
  experiment.pipeline.recompute_layers = {"*"};
  CHECK_FALSE(has_formula(experiment));
  experiment.pipeline.recompute_layers.clear();
  experiment.train.batch = 10;
  CHECK_FALSE(has_formula(experiment));
}

TEST_CASE("rank 0 sends in a step the bytes of the formulas: every head") {
  Experiment experiment = planned({.type = ModelType::mlp, .hidden = {16}}, 4, 1);
  experiment.head.classes = 40;
  for (const Logits logits : {Logits::gathered, Logits::transposed, Logits::sharded, Logits::fused}) {
    experiment.head.logits = logits;
    check_sent(experiment);
  }
  experiment.head.sample.rate = 0.25;
  check_sent(experiment);
  experiment.head.sample.rate = 1;
  experiment.head.parallel = HeadParallel::replicated;
  check_sent(experiment);
  experiment.head.normalize = false;
  experiment.head.bias = true;
  experiment.head.margin = {.scale = 1};
  experiment.head.weights = WeightState::bf16;
  experiment.head.momentum = MomentumState::bf16;
  for (const ShardedState shard : {ShardedState::none, ShardedState::optimizer}) {
    experiment.train.shard = shard;
    check_sent(experiment);
  }
}

TEST_CASE(
    "rank 0 sends in a step the bytes of the formulas: heads beside pipelines, whose embeddings lie on some ranks") {
  Experiment experiment = planned({.type = ModelType::mlp, .hidden = {16, 16, 16}}, 2, 1);
  experiment.mesh.pp = 2;
  experiment.head.classes = 40;
  experiment.train.micro_batches = 2;
  for (const char* schedule : {"1f1b", "zb_v", "chimera"})
    for (const AxisSet over : {every_axis, test::last_stage})
      for (const Logits logits : {Logits::gathered, Logits::transposed, Logits::sharded, Logits::fused})
        for (const double norm : {0.0, 1.0}) {
          CAPTURE(schedule);
          CAPTURE(to_string(over));
          CAPTURE(static_cast<int>(logits));
          CAPTURE(norm);
          experiment.pipeline.schedule = schedule;
          experiment.head.over = over;
          experiment.head.logits = logits;
          experiment.train.clip.norm = norm;
          check_sent(experiment);
        }
}

TEST_CASE("rank 0 sends in a step the bytes of the formulas: two copies of each stage, with norms and several axes") {
  Experiment experiment = planned({.type = ModelType::mlp, .hidden = {16, 16, 16}, .embedding_norm = true}, 2, 2);
  experiment.mesh.pp = 4;
  experiment.pipeline.schedule = "dualpipe";
  experiment.train.micro_batches = 8;
  experiment.train.batch = 2 * 8 * 3;
  experiment.head.classes = 41;
  for (const AxisSet over : {every_axis, test::last_stage, AxisSet{Axis::dp}, AxisSet{Axis::pp}})
    for (const ShardedState shard : {ShardedState::none, ShardedState::optimizer}) {
      CAPTURE(to_string(over));
      CAPTURE(static_cast<int>(shard));
      experiment.head.over = over;
      experiment.train.shard = shard;
      check_sent(experiment);
    }
}

TEST_CASE("rank 0 sends in a step the bytes of the formulas: heads shared along any axes, copies along the others" *
          doctest::test_suite(test::long_under_sanitizers)) {
  Experiment experiment = planned({.type = ModelType::mlp, .hidden = {16, 16, 16}}, 2, 2);
  experiment.head.tile = 4;
  for (const std::int64_t stages : {1, 2})
    for (unsigned axes = 1; axes <= every_axis.index(); ++axes)
      for (const Logits logits : {Logits::gathered, Logits::transposed, Logits::sharded, Logits::fused})
        for (const ClipConfig& clip : {ClipConfig{}, {.norm = 1}, {.norm = 1, .head = false}}) {
          experiment.mesh.pp = stages;
          experiment.head.over = AxisSet::of_index(axes);
          experiment.head.logits = logits;
          experiment.train.clip = clip;
          // Rows and classes that the ranks cannot share evenly.
          experiment.train.micro_batches = 2;
          experiment.train.batch = 2 * 14;
          experiment.head.classes = 41;
          CAPTURE(stages);
          CAPTURE(to_string(experiment.head.over));
          CAPTURE(static_cast<int>(logits));
          CAPTURE(clip.norm);
          CAPTURE(clip.head);
          check_sent(experiment);
        }
}

TEST_CASE(
    "rank 0 sends in a step the bytes of the formulas: copies of what margins learn, biases, centres and samples") {
  const auto copied = [](const auto& change) {
    Experiment experiment = planned({.type = ModelType::mlp, .hidden = {16}}, 2, 2);
    experiment.head.classes = 60;
    experiment.head.tile = 4;
    experiment.head.over = {Axis::dp};
    change(experiment.head);
    check_sent(experiment);
  };
  copied([](HeadConfig& head) { head.margin = {.type = MarginType::adaface}; });
  copied([](HeadConfig& head) { head.margin = {.type = MarginType::curricularface}; });
  copied([](HeadConfig& head) { head.loss_reduction = LossReduction::reduce_scatter; });
  copied([](HeadConfig& head) { head.sub_centres = 3; });
  copied([](HeadConfig& head) {
    head.normalize = false;
    head.bias = true;
    head.margin = {.scale = 1};
  });
  copied([](HeadConfig& head) {
    head.sample.rate = 0.6;  // more of a rank's 30 classes than the batch can have
    head.logits = Logits::fused;
  });
}

TEST_CASE("there is no formula for the copies of a sample whose size changes from step to step") {
  Experiment experiment = planned({.type = ModelType::mlp, .hidden = {16}}, 2, 2);
  experiment.head.classes = 60;
  experiment.head.sample.rate = 0.1;
  CHECK(run_variant(experiment, "planned", {}).sent_in_step.has_value());
  experiment.head.over = {Axis::dp};
  CHECK_FALSE(run_variant(experiment, "planned", {}).sent_in_step.has_value());
}

TEST_CASE("plan's bytes of all steps are those of steps with a loss and of steps without") {
  Experiment experiment = planned({.type = ModelType::mlp, .hidden = {16}}, 4, 1);
  const auto sent = [&](std::int64_t every, std::int64_t steps) {
    experiment.head.loss_every = every;
    experiment.train.steps = steps;
    return run_variant(experiment, "planned", {}).ranks[1].sent_bytes;
  };
  const std::int64_t with_loss = sent(1, 1);
  const std::int64_t without = sent(2, 2) - with_loss;
  CHECK(without < with_loss);
  CHECK(sent(1, 100) == 100 * with_loss);
  CHECK(sent(10, 100) == 10 * with_loss + 90 * without);
  CHECK(sent(10, 101) == 11 * with_loss + 90 * without);
  CHECK(sent(1000, 101) == with_loss + 100 * without);
}

TEST_CASE("rank 0 sends in a step the bytes of the formulas: layers placed in every way, along one axis and two") {
  Experiment experiment = planned({.type = ModelType::iresnet18}, 2, 2);
  check_sent(experiment);
  experiment.model = {.type = ModelType::resnext, .embedding = 8, .stem = Stem::small};
  experiment.model.resnext = {.blocks = {1, 1, 1, 1}, .cardinality = 4, .width = 4};
  for (const Parallel kind : {Parallel::data, Parallel::parameter, Parallel::column, Parallel::row})
    for (const Axis axis : {Axis::dp, Axis::tp}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(static_cast<int>(axis));
      experiment.model.placements = {{"layer*.conv1", kind, axis}, {"layer*.conv2", Parallel::group, Axis::tp}};
      check_sent(experiment);
    }
}

}  // namespace heddle::test::sent_bytes_test
