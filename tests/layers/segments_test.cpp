// Recomputed segments of a model: their boundaries and their memory.
#include "layers/stages/segments.h"

#include <doctest/doctest.h>

#include "experiments/training/planning/run_plan.h"
#include "layers/model.h"
#include "layers/modules/activation.h"
#include "layers/modules/linear.h"
#include "layers/planner/planner.h"
#include "tests/support/layouts.h"
#include "tests/support/message.h"
#include "tests/support/ranks.h"

namespace heddle::test {

namespace {

using test::ModelPointer;

/// A model of this many layers with 64 channels each: linear, gelu, linear, gelu ..
ModelSpec chain(int layers) {
  ModelSpec model({64});
  for (int i = 0; i < layers; ++i) {
    const bool is_linear = i % 2 == 0;
    model.then(fmt::format("{}{}", is_linear ? "linear" : "gelu", i),
               is_linear ? Linear::spec({.in = 64, .out = 64}) : Activation::spec(ActivationKind::gelu));
  }
  return model;
}

/// The most bytes of activations at once in one step on plan.
std::int64_t peak_activations(const ModelSpec& description, const std::vector<IndexRange>& segments) {
  std::int64_t peak = 0;
  run_ranks({.backend = "plan", .backend_options = {.threads = 1}}, [&](Rank& rank) {
    const auto shared = std::make_shared<ModelSpec>(description);
    Model model(shared, std::make_shared<ModelPlacement>(place(*shared, {})), {}, {rank.device, {1}});
    if (!segments.empty()) model.set_segments(segments);
    const Pass pass{.rank = rank, .training = true, .samples = {0, 1000}};
    const Variable y = model.forward(Variable(Tensor::zeros(rank.device, {1000, 64}, DType::f32)), pass);
    backward({{y, y.value().clone()}});
    peak = rank.device.meter().peak().bytes[static_cast<std::size_t>(Category::activations)];
  });
  return peak;
}

}  // namespace

TEST_CASE("sqrt makes about sqrt(n) segments of a stage's n layers") {
  CHECK(sqrt_segments({5, 10}) == std::vector<IndexRange>{{5, 4}, {9, 3}, {12, 3}});
  CHECK(sqrt_segments({2, 1}) == std::vector<IndexRange>{{2, 1}});
  CHECK(sqrt_segments({0, 100}).size() == 10);
}

TEST_CASE("layers that are to be recomputed make one segment with their neighbours, cut where a stage ends") {
  ModelSpec model = chain(10);
  model.recompute("linear2");
  model.recompute("*3");
  model.recompute("gelu*");
  CHECK(marked_segments(model, {0, 10}) == std::vector<IndexRange>{{1, 3}, {5, 1}, {7, 1}, {9, 1}});
  CHECK(marked_segments(model, {2, 5}) == std::vector<IndexRange>{{2, 2}, {5, 1}});
  CHECK(message_of([&] { model.recompute("layer*"); }) == "model: no layer's name matches \"layer*\"");
}

TEST_CASE("segments keep their ends only") {
  const ModelSpec model = chain(64);
  const std::int64_t kept = peak_activations(model, {});
  CHECK(peak_activations(model, sqrt_segments({0, 64})) < kept / 2);
  ModelSpec marked = model;
  marked.recompute("*");
  marked.recompute("*1");
  const std::int64_t one = peak_activations(marked, {});
  CHECK(one <= kept + 2 * 1000 * 64 * 4);  // all at once in backward
  CHECK(peak_activations(marked, sqrt_segments({0, 64})) == peak_activations(model, sqrt_segments({0, 64})));
}

TEST_CASE("an experiment recomputes by segments or by layers with the bits of a run that keeps all") {
  Experiment experiment = test::small_experiment(10, 8, 6, DType::f32);
  ModelSpec model({8, 8, 3});
  model.then("flatten", Flatten::spec());
  for (const char* name : {"a", "b", "c"}) {
    model.then(fmt::format("{}.linear", name), Linear::spec({.in = model.sample(model.last_value()).back(), .out = 6}));
    model.then(fmt::format("{}.gelu", name), Activation::spec(ActivationKind::gelu));
    model.then(fmt::format("{}.dropout", name), Dropout::spec(0.2));
  }
  const auto shared = std::make_shared<ModelSpec>(std::move(model));
  const test::Layout kept{.micro_batches = 2};
  test::Layout by_segments = kept;
  by_segments.pipeline.recompute = Recompute::sqrt;
  test::Layout by_layers{.mesh = Mesh(1, 2, 1), .micro_batches = 2};
  by_layers.over = test::last_stage;  // whole, as that of one rank
  by_layers.pipeline.recompute_layers = {"a.*", "c.gelu"};
  test::check_same_bits(experiment, shared, by_segments, kept);
  test::check_same_bits(experiment, shared, by_layers, kept);

  const auto error_of = [&](const PipelineConfig& config) {
    experiment.pipeline = config;
    return message_of([&] { (void)plan_run(experiment, shared, Mesh()); });
  };
  PipelineConfig pipeline;
  pipeline.recompute_layers = {"a.*", "d.*"};
  CHECK(error_of(pipeline) == "model: no layer's name matches \"d.*\"");
  pipeline.recompute = Recompute::sqrt;
  CHECK(error_of(pipeline) == "expected none, because pipeline.recompute = sqrt recomputes all layers");
}

}  // namespace heddle::test
