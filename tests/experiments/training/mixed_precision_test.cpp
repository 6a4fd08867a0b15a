// train.dtype bf16 and f16: the types of held and sent tensors, and the agreement of layouts, schedules and plan.
#include <algorithm>
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "experiments/training/checkpoints/checkpoint.h"
#include "experiments/training/run.h"
#include "framework/ops/elementwise.h"
#include "layers/modules/activation.h"
#include "layers/modules/linear.h"
#include "parallel/pipeline/schedules.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"
#include "tests/support/random_model.h"
#include "tests/support/results/losses.h"
#include "tests/support/scratch.h"

namespace heddle::test::mixed_precision_test {

namespace {

using test::Course;
using test::Layout;

/// A way to train in 16 bits.
struct Way {
  std::string name;
  DType type;
  DType weights = DType::f32;
};
constexpr std::array ways{Way{"f16", DType::f16}, Way{"bf16", DType::bf16}, Way{"pure", DType::bf16, DType::bf16},
                          Way{"pure f16", DType::f16, DType::f16}};

Experiment experiment_of(const Way& way, std::int64_t batch) {
  Experiment experiment = test::small_experiment(20, batch, 6, way.type);
  experiment.train.optimizer.weights = way.weights;
  return experiment;
}

test::ModelPointer random_model(std::uint64_t seed, const Mesh& mesh, bool with_norms = true) {
  RandomStream draws({seed}, Purpose::test, 11, 0);
  return test::random_model(draws, {.with_norms = with_norms}, mesh);
}

/// Linear layers alone, without biases.
test::ModelPointer matrices() {
  ModelSpec model({8, 8, 3});
  model.then("flatten", Flatten::spec());
  model.then("a", Linear::spec({.in = 192, .out = 32, .bias = false}));
  model.then("relu", Activation::spec(ActivationKind::relu));
  model.then("b", Linear::spec({.in = 32, .out = 6, .bias = false}));
  return std::make_shared<ModelSpec>(std::move(model));
}

/// Calls visit(trainer) in the midst of a step, when gradients are there.
void in_a_step(const Experiment& experiment, const Layout& layout, const std::function<void(Trainer&)>& visit) {
  (void)test::train(experiment, matrices(), layout, {.end = 0, .before = [&](Trainer& trainer) {
                                                       (void)trainer.compute_gradients(0);
                                                       visit(trainer);
                                                       (void)trainer.apply_gradients(0);
                                                     }});
}

}  // namespace

TEST_CASE("a weight's narrow copy is kept with it, made anew after a change, and its gradient comes back wide") {
  Device device = test::make_device();
  const Tensor weight = test::tensor(device, {2, 2}, {1, 2, 3, 4}, DType::f32);
  auto gradient = std::make_shared<Accumulator>(Category::gradients);
  const Variable leaf = Variable::parameter(weight, gradient);
  const std::int64_t before = device.meter().live()[Category::workspace];
  const Variable first = cast_weight(leaf, DType::bf16);
  const Variable second = cast_weight(leaf, DType::bf16);
  CHECK(first.dtype() == DType::bf16);
  CHECK(first.value().data() == second.value().data());
  CHECK(device.meter().live()[Category::workspace] == before + 4 * 2);
  const std::uint64_t version = first.value().storage()->version();
  Tensor changed = weight;
  changed.fill(5);
  CHECK(cast_weight(leaf, DType::bf16).value().to_doubles() == std::vector<double>{5, 5, 5, 5});
  CHECK(first.value().storage()->version() > version);  // so that what is packed of it is packed again
  CHECK(device.meter().live()[Category::workspace] == before + 4 * 2);
  backward({{first, test::tensor(device, {2, 2}, {1, 2, 3, 4}, DType::bf16)},
            {second, test::tensor(device, {2, 2}, {0.00390625, 0, 0, 0}, DType::bf16)}});
  CHECK(gradient->gradient().dtype() == DType::f32);
  CHECK(gradient->gradient().to_doubles() == std::vector<double>{1.00390625, 2, 3, 4});
}

TEST_CASE(
    "mixed precision keeps weights, gradients and optimizer state in f32; pure, all three of matrices in 16 bits") {
  const auto bytes = [](const Way& way) {
    std::vector<std::int64_t> held;
    in_a_step(experiment_of(way, 16), {}, [&](Trainer& trainer) {
      for (const StateTensor& state : trainer.backbone_state()) held.push_back(state.value.bytes());
      for (const Parameter* parameter : trainer.parameters().all())
        held.push_back(parameter->gradient->gradient().bytes());
    });
    return held;
  };
  const std::vector<std::int64_t> f32 = bytes({"f32", DType::f32});
  REQUIRE(f32.size() == 6);  // two weights with velocity and gradient
  std::vector<std::int64_t> half = f32;
  for (std::int64_t& each : half) each /= 2;
  CHECK(bytes({"f16", DType::f16}) == f32);
  CHECK(bytes({"bf16", DType::bf16}) == f32);
  CHECK(bytes({"pure", DType::bf16, DType::bf16}) == half);
  CHECK(bytes({"pure f16", DType::f16, DType::f16}) == half);
}

TEST_CASE("pure 16-bit training meters half of f32's bytes of parameters, gradients, optimizer and messages") {
  Layout layout{Mesh(1, 2), 2};
  layout.over = test::last_stage;
  const auto use = [&layout](const Way& way) {
    test::Use of_first;  // the head is with the other stage
    in_a_step(experiment_of(way, 16), layout, [&](Trainer& trainer) {
      const MemoryUse live = trainer.rank().device.meter().live();
      if (trainer.rank().index == 0)
        of_first = {{live.bytes.begin(), live.bytes.end()}, trainer.rank().bytes.sent_bytes()};
    });
    return of_first;
  };
  const test::Use f32 = use({"f32", DType::f32});
  for (const DType type : {DType::bf16, DType::f16}) {
    const test::Use pure = use({"pure", type, type});
    const std::int64_t overflow_check = type == DType::f16 ? sizeof(double) : 0;
    CHECK(pure.sent > 0);
    CHECK(2 * (pure.sent - overflow_check) == f32.sent);
    for (const Category category : {Category::parameters, Category::gradients, Category::optimizer}) {
      const auto i = static_cast<std::size_t>(category);
      CAPTURE(i);
      CHECK(f32.bytes[i] > 0);
      CHECK(2 * pure.bytes[i] == f32.bytes[i]);
    }
  }
}

TEST_CASE("plan counts what layouts in 16 bits hold and send, rank by rank, to the byte" *
          doctest::test_suite(test::long_under_sanitizers)) {
  for (const Way& way : ways)
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      RandomStream draws({seed}, Purpose::test, 12, 0);
      const auto size = [&draws] { return 1 + static_cast<int>(draws.below(2)); };
      Layout layout{Mesh(size(), size(), size()), 2};
      layout.pipeline.recompute = static_cast<Recompute>(draws.below(4));
      layout.over = test::random_axes(draws);
      Experiment experiment = experiment_of(way, 4 * layout.mesh.size() + 1);
      if (draws.below(2) == 0) experiment.train.shard = ShardedState::optimizer;
      if (draws.below(2) == 0) experiment.train.clip.norm = 0.5;
      const test::ModelPointer model = random_model(seed, layout.mesh, draws.below(2) == 0);
      CAPTURE(way.name);
      CAPTURE(seed);
      CAPTURE(to_string(layout.mesh));
      CHECK(test::use_of_step(experiment, model, layout, "plan") == test::use_of_step(experiment, model, layout));
    }
}

TEST_CASE("schedules and stages change no bit in 16 bits" * doctest::test_suite(test::long_under_sanitizers)) {
  for (const Way& way : ways)
    for (const char* const schedule : {"gpipe", "1f1b", "zb_h1", "interleaved", "zb_v"}) {
      const test::ModelPointer model = random_model(7, Mesh(2));
      Layout layout{Mesh(2, 2), 4};
      layout.pipeline.schedule = schedule;
      layout.pipeline.chunks = default_chunks(schedule);
      layout.over = test::last_stage;
      Layout flat{Mesh(2), 4};
      flat.over = test::last_stage;
      CAPTURE(way.name);
      CAPTURE(schedule);
      test::check_same_bits(experiment_of(way, 35), model, layout, flat);
      layout.pipeline.recompute = Recompute::always;
      test::check_same_bits(experiment_of(way, 35), model, layout, flat);
    }
}

TEST_CASE("pure weights are rounded by the same draws on every layout, wherever their parts lie") {
  // No gradient, but decay: a step then depends on the weight and its draw alone.
  Experiment experiment = experiment_of({"pure", DType::bf16, DType::bf16}, 16);
  constexpr double decay = 0.0005;
  experiment.train.optimizer.weight_decay = decay;
  experiment.train.clip.value = 1e-30;
  experiment.train.optimizer.learning_rate = 1;
  const auto trained = [&](const Layout& layout, ShardedState shard, std::optional<PlacementRequest> request) {
    ModelSpec model(*matrices());
    if (request) model.place("a", *request);
    experiment.train.shard = shard;
    return test::train(experiment, std::make_shared<ModelSpec>(model), layout, 3).weights.at("a.weight");
  };
  const std::vector<double> serial = trained({}, ShardedState::none, {});
  const std::vector<double> initial = test::train(experiment, matrices(), {}, 0).weights.at("a.weight");
  // A step of a tenth of the distance between neighbours moves a tenth of the weights. With momentum 0.9:
  double share = 0;
  for (std::size_t i = 0; i < serial.size(); ++i) share += serial[i] * initial[i];
  double all = 0;
  for (const double weight : initial) all += weight * weight;
  const double expected = 1 - 5.61 * decay + 4.8 * decay * decay;
  CHECK(share / all == close_to(expected).epsilon(3e-4));
  CHECK(trained({Mesh(3)}, ShardedState::optimizer, {}) == serial);
  CHECK(trained({Mesh(2)}, ShardedState::none, PlacementRequest{Parallel::parameter, Axis::dp}) == serial);
  CHECK(trained({Mesh(1, 1, 3)}, ShardedState::none, PlacementRequest{Parallel::column, Axis::tp}) == serial);
  CHECK(trained({Mesh(1, 1, 3)}, ShardedState::none, PlacementRequest{Parallel::row, Axis::tp}) == serial);
  CHECK(trained({Mesh(3, 1, 2)}, ShardedState::optimizer, PlacementRequest{Parallel::row, Axis::tp}) == serial);
}

namespace {

/// What one step with this rate adds to the first layer's weights.
std::vector<double> movement(Experiment experiment, double rate) {
  experiment.train.optimizer.learning_rate = rate;
  experiment.train.optimizer.weight_decay = 0;
  const std::vector<double> before = test::train(experiment, matrices(), {}, 0).weights.at("a.weight");
  std::vector<double> after = test::train(experiment, matrices(), {}, 1).weights.at("a.weight");
  for (std::size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
  return after;
}

}  // namespace

TEST_CASE("gradients below f16's smallest number reach pure f16 weights, because the loss scale is taken out in f32") {
  // A norm of 1e-6 over thousands of elements.
  const auto moved = [](DType weights) {
    Experiment experiment = experiment_of({"f16", DType::f16, weights}, 16);
    experiment.train.clip.norm = 1e-6;
    experiment.train.loss_scale.init_scale = 4096;  // so that no gradient overflows
    return movement(experiment, 1e6);
  };
  CHECK(test::difference(moved(DType::f16), moved(DType::f32)) < 0.05);
}

TEST_CASE("a clipped step of pure f16 is that of mixed precision, whatever the loss scale is") {
  for (const bool by_norm : {false, true}) {
    const auto moved = [&](DType weights, double scale) {
      Experiment experiment = experiment_of({"f16", DType::f16, weights}, 16);
      experiment.train.loss_scale.init_scale = scale;
      if (by_norm)
        experiment.train.clip.norm = 0.1;
      else
        experiment.train.clip.value = 1e-3;
      return movement(experiment, 10);
    };
    const std::vector<double> mixed = moved(DType::f32, 1024);
    CAPTURE(by_norm);
    for (const double scale : {256.0, 4096.0}) CHECK(test::difference(moved(DType::f16, scale), mixed) < 0.02);
  }
}

TEST_CASE("the factor of clipped gradients of 16 bits is not rounded with them") {
  // A third of the norm at three times the rate is the same step, if each product is rounded in f32 alone.
  Experiment experiment = experiment_of({"pure", DType::bf16, DType::bf16}, 16);
  experiment.train.optimizer.momentum = 0;
  experiment.train.clip.norm = 0.03;
  const std::vector<double> moved = movement(experiment, 1e4);
  experiment.train.clip.norm = 0.01;
  const std::vector<double> alike = movement(experiment, 3e4);
  std::size_t different = 0;
  for (std::size_t i = 0; i < moved.size(); ++i) different += moved[i] != alike[i] ? 1 : 0;
  CHECK(different * 50 < moved.size());
  CHECK(test::difference(moved, std::vector<double>(moved.size())) > 1);
}

TEST_CASE("runs in 16 bits resume from a checkpoint with the bits of an uninterrupted run") {
  for (const Way& way : ways) {
    const Scratch scratch;
    const CheckpointFolder folder(scratch / "");
    const test::ModelPointer model = random_model(5, Mesh(2));
    const Layout layout{Mesh(2), 2};
    Experiment experiment = experiment_of(way, 24);
    experiment.train.loss_scale = {.init_scale = 1 << 20, .growth_interval = 2};  // overflows, shrinks and grows
    const test::Outcome whole = test::train(experiment, model, layout, 24);
    (void)test::train(experiment, model, layout,
                      {.end = 15, .after = [&](Trainer& trainer) { folder.save(trainer, 15); }});
    const auto load = [&](Trainer& trainer) { CHECK(folder.load(trainer, 15).empty()); };
    const test::Outcome rest = test::train(experiment, model, layout, {.first = 15, .end = 24, .before = load});
    CAPTURE(way.name);
    CHECK(rest.state == whole.state);
    CHECK(std::equal(rest.losses.begin(), rest.losses.end(), whole.losses.begin() + 15));
  }
}

TEST_CASE("a backend with data trains in 16 bits as the cpu does") {
  if (test::tested_backend() == "cpu") return;
  for (const Way& way : ways) {
    Experiment experiment = experiment_of(way, 24);
    experiment.model = {.type = ModelType::resnext, .embedding = 6, .stem = Stem::small};
    experiment.model.resnext = {.blocks = {1, 1, 1, 1}, .cardinality = 2, .width = 4};
    experiment.data.synthetic_identities.image = {3, 16, 16};
    experiment.mesh.dp = 2;
    experiment.threads = 1;
    const auto losses_on = [&](DeviceType device) {
      experiment.device = device;
      const VariantResult result = run_variant(experiment, "trained", {});
      CHECK(result.error.empty());
      return test::losses_in(result);
    };
    CAPTURE(way.name);
    const std::vector<double> cpu = losses_on(DeviceType::cpu);
    const std::vector<double> tested = losses_on(DeviceType::cuda);
    REQUIRE(tested.size() == 3);
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(tested[i] == close_to(cpu[i]).epsilon(test::tolerance_of(experiment).losses));
  }
}

TEST_CASE("rank 0 sends in a step the bytes of the formulas, also in 16 bits" *
          doctest::test_suite(test::long_under_sanitizers)) {
  for (const Way& way : ways)
    for (const ShardedState shard : {ShardedState::none, ShardedState::optimizer})
      for (const Parallel kind : {Parallel::data, Parallel::parameter, Parallel::column, Parallel::row}) {
        Experiment experiment = experiment_of(way, 16);
        experiment.device = DeviceType::plan;
        experiment.data.synthetic_identities.image = {3, 16, 16};
        experiment.model = {.type = ModelType::resnext, .embedding = 8, .stem = Stem::small};
        experiment.model.resnext = {.blocks = {1, 1, 1, 1}, .cardinality = 4, .width = 4};
        experiment.model.placements = {{"layer*.conv1", kind, Axis::tp}};
        experiment.mesh = {.dp = 2, .pp = 2, .tp = 2};
        experiment.train.micro_batches = 2;
        experiment.train.clip.norm = 1;
        experiment.train.shard = shard;
        const VariantResult result = run_variant(experiment, "planned", {});
        CAPTURE(way.name);
        CAPTURE(static_cast<int>(kind));
        REQUIRE(result.error.empty());
        REQUIRE(result.sent_in_step.has_value());
        CHECK(result.sent_in_step->counted == result.sent_in_step->formula.total());
      }
}

}  // namespace heddle::test::mixed_precision_test
