// Heads under a backbone, on meshes of every kind, against the serial run.
#include <cmath>

#include <doctest/doctest.h>

#include "experiments/training/run.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/compare/difference.h"
#include "tests/support/layouts.h"

namespace heddle::test {

namespace {

using test::Layout;

test::ModelPointer small_model() {
  return std::make_shared<ModelSpec>(
      make_model({.type = ModelType::mlp, .embedding = 6, .hidden = {9}}, {.channels = 3, .height = 8, .width = 8}));
}

}  // namespace

TEST_CASE("a replicated head trains as one rank that has all classes and samples: losses, gradients and weights" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const test::ModelPointer model = small_model();
  const std::vector<Layout> layouts{{Mesh(2), 2}, {Mesh(4), 1}, {Mesh(1, 1, 2), 3}, {Mesh(2, 2), 2}};
  for (const DType dtype : {DType::f64, DType::f32})
    for (const OptimizerType type : {OptimizerType::sgd, OptimizerType::adamw})
      for (const ShardedState state : {ShardedState::none, ShardedState::optimizer})
        for (const double norm : {0.0, 0.05}) {
          Experiment experiment = test::small_experiment(11, 24, 6, dtype);
          experiment.train.optimizer.type = type;
          experiment.train.shard = state;
          experiment.train.clip.norm = norm;
          const double tolerance = dtype == DType::f64 ? 1e-12 : 2e-5;
          for (Layout layout : layouts)
            for (const Logits logits : {Logits::sharded, Logits::fused}) {
              CAPTURE(to_string(layout.mesh));
              CAPTURE(static_cast<int>(type));
              CAPTURE(static_cast<int>(state));
              CAPTURE(norm);
              layout.logits = logits;
              experiment.head.parallel = HeadParallel::sharded;
              const test::Outcome reference = test::train(experiment, model, test::reference_of(layout), 3);
              experiment.head.parallel = HeadParallel::replicated;
              test::Outcome outcome = test::train(experiment, model, layout, 3);
              for (std::size_t i = 0; i < reference.losses.size(); ++i)
                CHECK(outcome.losses[i] == close_to(reference.losses[i]).epsilon(tolerance));
              CHECK(outcome.gradients.erase("head.weight") == 1);  // the reference has no such tensor
              CHECK(test::max_difference(outcome.gradients, reference.gradients).error <= tolerance);
              CHECK(test::max_difference(outcome.weights, reference.weights).error <= tolerance);
            }
        }
}

namespace {

/// A plain softmax with biases.
void make_plain(HeadConfig& head) {
  head.margin = {.scale = 1};
  head.normalize = false;
  head.bias = true;
}

const std::vector<Layout> replicated_layouts{
    {Mesh(2), 2}, {Mesh(3), 1, Logits::fused}, {Mesh(1, 1, 2), 3}, {Mesh(2, 2), 2}};

}  // namespace

TEST_CASE("a replicated head with biases trains as one rank that has all classes and samples") {
  const test::ModelPointer model = small_model();
  for (const OptimizerType type : {OptimizerType::sgd, OptimizerType::adamw})
    for (const ShardedState state : {ShardedState::none, ShardedState::optimizer})
      for (const Layout& layout : replicated_layouts) {
        Experiment experiment = test::small_experiment(11, 24, 6, DType::f64);
        make_plain(experiment.head);
        experiment.train.optimizer.type = type;
        experiment.train.optimizer.decay_norms_and_biases = false;
        experiment.train.shard = state;
        experiment.train.clip.norm = 0.05;
        CAPTURE(to_string(layout.mesh));
        CAPTURE(static_cast<int>(type));
        CAPTURE(static_cast<int>(state));
        test::Outcome reference = test::train(experiment, model, test::reference_of(layout), 3);
        reference.weights["head.bias"] = reference.state.at("head.bias");
        experiment.head.parallel = HeadParallel::replicated;
        const test::Outcome outcome = test::train(experiment, model, layout, 3);
        for (std::size_t i = 0; i < reference.losses.size(); ++i)
          CHECK(outcome.losses[i] == close_to(reference.losses[i]).epsilon(1e-12));
        CHECK(test::max_difference(outcome.weights, reference.weights).error <= 1e-11);
      }
}

TEST_CASE("a replicated head with 16-bit state trains as a sharded one with the same state, and holds what plan says") {
  const test::ModelPointer model = small_model();
  for (const auto& [weights, momentum] :
       {std::pair(WeightState::bf16, MomentumState::bf16), std::pair(WeightState::f16, MomentumState::f16)})
    for (const bool is_plain : {false, true})
      for (const ShardedState state : {ShardedState::none, ShardedState::optimizer})
        for (const Layout& layout : replicated_layouts) {
          Experiment experiment = test::small_experiment(11, 24, 6, DType::f32);
          if (test::is_sanitized && is_plain != (weights == WeightState::f16)) continue;
          if (is_plain) make_plain(experiment.head);
          experiment.head.weights = weights;
          experiment.head.momentum = momentum;
          experiment.train.shard = state;
          CAPTURE(to_string(layout.mesh));
          CAPTURE(static_cast<int>(weights));
          CAPTURE(is_plain);
          const test::Outcome reference = test::train(experiment, model, test::reference_of(layout), 3);
          experiment.head.parallel = HeadParallel::replicated;
          const test::Outcome outcome = test::train(experiment, model, layout, 3);
          const double epsilon = weights == WeightState::bf16 ? 0x1p-8 : 0x1p-11;
          for (std::size_t i = 0; i < reference.losses.size(); ++i)
            CHECK(outcome.losses[i] == close_to(reference.losses[i]).epsilon(epsilon));
          // A few elements are rounded to their other neighbour.
          CHECK(test::difference(outcome.weights.at("head.weight"), reference.weights.at("head.weight")) < 2 * epsilon);
          CHECK(test::use_of_step(experiment, model, layout, "plan") == test::use_of_step(experiment, model, layout));
        }
}

TEST_CASE("unit rows are drawn alike on all layouts, replicated or sharded, and have length one") {
  const test::ModelPointer model = small_model();
  for (const DType dtype : {DType::f64, DType::f32}) {
    Experiment experiment = test::small_experiment(11, 24, 6, dtype);
    experiment.head.init = HeadInit::unit;
    const auto drawn = [&](const Layout& layout, HeadParallel parallel) {
      experiment.head.parallel = parallel;
      return test::train(experiment, model, layout, 0).weights.at("head.weight");
    };
    const std::vector<double> serial = drawn({}, HeadParallel::sharded);
    for (std::size_t row = 0; row < 11; ++row) {
      double square = 0;
      for (std::size_t i = 0; i < 6; ++i) square += serial[6 * row + i] * serial[6 * row + i];
      CHECK(square == close_to(1).epsilon(1e-6));
    }
    for (const Layout& layout : {Layout{Mesh(3)}, Layout{Mesh(1, 1, 2)}, Layout{Mesh(2, 2)}, Layout{Mesh(4)}}) {
      CAPTURE(to_string(layout.mesh));
      CHECK(drawn(layout, HeadParallel::sharded) == serial);
      CHECK(drawn(layout, HeadParallel::replicated) == serial);
    }
  }
}

TEST_CASE("plan counts the memory of a run whose samples differ in size from step to step") {
  Experiment experiment = test::small_experiment(60, 24, 8, DType::f32);
  experiment.data.synthetic_identities.identities = 60;
  experiment.model = {.type = ModelType::mlp, .embedding = 8, .hidden = {}};
  experiment.mesh.dp = 2;
  experiment.head.sample.rate = 0.1;
  experiment.train.steps = 9;
  for (const Logits logits : {Logits::sharded, Logits::fused}) {
    experiment.head.logits = logits;
    experiment.device = DeviceType::cpu;
    const VariantResult ran = run_variant(experiment, "a", {});
    experiment.device = DeviceType::plan;
    const VariantResult planned = run_variant(experiment, "a", {});
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CHECK(planned.ranks[rank].peak.bytes == ran.ranks[rank].peak.bytes);
      CHECK(planned.ranks[rank].sent_bytes == ran.ranks[rank].sent_bytes);
    }
  }
}

TEST_CASE("with micro-batches and a sample no rank holds anything as large as its classes' logits of the batch") {
  const auto peak = [](DeviceType device, std::int64_t classes, std::int64_t batch, std::int64_t embedding) {
    Experiment experiment = test::small_experiment(classes, batch, embedding, DType::f32);
    experiment.device = device;
    experiment.mesh.dp = 2;
    experiment.model = {.type = ModelType::mlp, .embedding = embedding, .hidden = {}};
    experiment.head.logits = Logits::fused;
    experiment.head.sample.rate = 0.3;
    experiment.train.micro_batches = 8;
    experiment.train.steps = 2;
    const VariantResult result = run_variant(experiment, "a", {});
    REQUIRE(result.status == VariantResult::Status::ok);
    return result.ranks[0].peak.total();
  };
  const auto logits = [](std::int64_t classes, std::int64_t batch) { return batch * classes / 2 * 4; };
  // The shape of a recipe, 2 million classes and 8 micro-batches of 256, and a small shape that is run.
  CHECK(peak(DeviceType::plan, 2'000'000, 2048, 512) < logits(2'000'000, 2048) * 55 / 100);
  const std::int64_t planned = peak(DeviceType::plan, 20'000, 512, 16);
  CHECK(planned < logits(20'000, 512) / 7);
  CHECK(peak(DeviceType::cpu, 20'000, 512, 16) == planned);
}

}  // namespace heddle::test
