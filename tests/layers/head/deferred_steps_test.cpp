// Rows outside the sample that defer their steps end with the same values as rows that take each step at once.
#include "tests/support/head/deferred_training.h"
#include "tests/support/message.h"

namespace heddle::test::deferred {

TEST_CASE("lazy rows are dense ones on any number of ranks, for every way that samples and every sgd") {
  for (const OptimizerConfig& optimizer :
       {OptimizerConfig{.weight_decay = 0.1, .momentum = 0.9},
        OptimizerConfig{.weight_decay = 0.1, .momentum = 0.8, .nesterov = true},
        OptimizerConfig{.weight_decay = 0.1, .momentum = 0}, OptimizerConfig{.weight_decay = 0, .momentum = 0.9}}) {
    Case c;
    c.optimizer = optimizer;
    c.config.sample = {.rate = 0.1, .shards = 2};
    c.config.tile = 4;
    const Learned reference = train(c, Unsampled::dense);
    for (const bool stash : {false, true})
      for (const Logits logits : {Logits::sharded, Logits::fused}) {
        if (stash && logits == Logits::sharded) continue;
        c.config.logits = logits;
        c.config.stash = stash;
        for (const int ranks : {1, 2, 3}) {
          c.ranks = ranks;
          CHECK(difference(train(c, Unsampled::lazy), reference) < 1e-12);
        }
      }
  }
}

TEST_CASE("biases defer their steps with the weights of their classes, also where they decay otherwise") {
  for (const bool decays : {false, true}) {
    Case c;
    c.config.margin = {.scale = 1};
    c.config.normalize = false;
    c.config.bias = true;
    c.config.sample = {.rate = 0.1, .shards = 2};
    c.optimizer = {.weight_decay = 0.1, .decay_norms_and_biases = decays, .momentum = 0.9};
    const Learned reference = train(c, Unsampled::dense);
    CHECK(*std::max_element(reference.biases.begin(), reference.biases.end()) > 1e-3);
    for (const int ranks : {1, 3}) {
      c.ranks = ranks;
      CHECK(difference(train(c, Unsampled::lazy), reference) < 1e-12);
      CHECK(difference(train(c, Unsampled::frozen), reference) > 1e-6);
    }
  }
}

TEST_CASE("a lazy head without momentum in its state is a dense one without") {
  Case c;
  c.config.sample.rate = 0.1;
  c.config.momentum = MomentumState::none;
  CHECK(difference(train(c, Unsampled::lazy), train(c, Unsampled::dense)) < 1e-12);
}

TEST_CASE("plan counts the memory of a run of a lazy head") {
  Case c;
  c.config.sample.rate = 0.1;
  c.ranks = 3;
  c.steps = 3;
  const Learned ran = train(c, Unsampled::lazy);
  c.backend = "plan";
  const Learned planned = train(c, Unsampled::lazy);
  for (std::size_t rank = 0; rank < 3; ++rank) CHECK(planned.peaks[rank].bytes == ran.peaks[rank].bytes);
}

TEST_CASE("a range of deferred steps is the product of their maps, wherever it begins and ends") {
  Device device = test::make_device();
  DeferredStepTable table(device);
  std::vector<SgdMap> maps;
  constexpr std::int64_t steps = 70;
  for (std::int64_t i = 0; i < steps; ++i) {
    maps.push_back(sgd_map<double>(
        {.learning_rate = rate_of(i, steps), .momentum = 0.9, .weight_decay = 0.1, .nesterov = i % 2 == 0}));
    table.add(maps.back());
    const std::vector<double> values = table.steps().maps.to_host<double>();
    const auto* const products = reinterpret_cast<const SgdMap*>(values.data());
    for (std::int64_t begin = 0; begin <= i + 1; ++begin) {
      SgdMap expected;
      for (std::int64_t k = begin; k <= i; ++k) expected = expected.then(maps[static_cast<std::size_t>(k)]);
      const SgdMap product = product_of(products, begin, i + 1);
      CHECK(product.ww == doctest::Approx(expected.ww).epsilon(1e-13).scale(1));
      CHECK(product.wv == doctest::Approx(expected.wv).epsilon(1e-13).scale(1));
      CHECK(product.vw == doctest::Approx(expected.vw).epsilon(1e-13).scale(1));
      CHECK(product.vv == doctest::Approx(expected.vv).epsilon(1e-13).scale(1));
    }
  }
}

TEST_CASE("a full table of deferred steps refuses a further one") {
  Device device = test::make_device();
  DeferredStepTable table(device);
  while (!table.is_full()) table.add({});
  CHECK(table.steps().count == DeferredStepTable::max_steps);
  CHECK_THROWS_WITH_AS(table.add({}), "deferred steps: expected at most 16384", Error);
}

TEST_CASE("only the selected rows catch up, and take the steps that they have deferred") {
  Device device = test::make_device();
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Values weights = test::normal_values(4 * dimension, 1);
    const Values velocities = test::normal_values(4 * dimension, 2);
    ClassTable table{.weight = test::tensor(device, {4, dimension}, weights, dtype),
                     .momentum = test::tensor(device, {4, dimension}, velocities, dtype),
                     .taken = Tensor::zeros(device, {4}, DType::i32)};
    DeferredStepTable steps(device);
    const SgdMap map = sgd_map<float>({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.5});
    steps.add(map);
    const auto catch_up = [&](std::int64_t row) {
      const Tensor index = test::integers(device, {row});
      device.backend().class_rows().catch_up(table, {.size = 1, .index = index}, steps.steps());
    };
    catch_up(1);
    steps.add(map);
    catch_up(1);
    catch_up(2);
    CHECK(table.taken.to_host<std::int32_t>() == std::vector<std::int32_t>{0, 2, 2, 0});
    const SgdMap twice = map.then(map);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::size_t row = i / dimension;
      const bool has = row == 1 || row == 2;
      const double weight = has ? twice.ww * weights[i] + twice.wv * velocities[i] : weights[i];
      const double velocity = has ? twice.vw * weights[i] + twice.vv * velocities[i] : velocities[i];
      CHECK(table.weight.to_doubles()[i] == doctest::Approx(weight).epsilon(1e-6).scale(1));
      CHECK(table.momentum.to_doubles()[i] == doctest::Approx(velocity).epsilon(1e-6).scale(1));
    }
  }
}

TEST_CASE("rows that cannot defer steps are refused") {
  Device device = test::make_device();
  DeferredStepTable steps(device);
  const auto said = [&](ClassTable table, const DeferredSteps& deferred) {
    return message_of([&] { device.backend().class_rows().catch_up(table, {.size = 4}, deferred); });
  };
  const auto rows = [&](DType dtype) { return Tensor::zeros(device, {4, 5}, dtype); };
  const Tensor taken = Tensor::zeros(device, {4}, DType::i32);
  CHECK(said({.weight = rows(DType::f32), .taken = taken}, steps.steps()) == "no error");
  CHECK(said({.weight = rows(DType::bf16), .taken = taken}, steps.steps()) ==
        "class rows: only f32 and f64 state can defer steps, got weight bf16[4,5] with momentum none");
  CHECK(said({.weight = rows(DType::f32), .momentum = rows(DType::bf16), .taken = taken}, steps.steps()) ==
        "class rows: only f32 and f64 state can defer steps, got weight f32[4,5] with momentum bf16[4,5]");
  CHECK(said({.weight = rows(DType::f32)}, steps.steps()) ==
        "class rows: expected the steps taken as i32[4], got none");
  CHECK(said({.weight = rows(DType::f32), .taken = taken},
             {.count = 2, .maps = Tensor::zeros(device, {3, 4}, DType::f64)}) ==
        "class rows: expected the maps of 2 steps, got f64[3,4]");
}

TEST_CASE("lazy steps of other optimizers and of narrow state are refused") {
  const std::string expected =
      "head.sample.unsampled: lazy defers steps of sgd in f32: expected sgd, f32 weights, and f32 momentum or none";
  const HeadConfig lazy{.classes = 9, .sample = {.rate = 0.5, .unsampled = Unsampled::lazy}};
  CHECK_NOTHROW(check(lazy, {}, DType::f32));
  CHECK_THROWS_WITH_AS(check(lazy, {.type = OptimizerType::adamw}, DType::f32), expected.c_str(), InputError);
  HeadConfig narrow = lazy;
  narrow.weights = WeightState::bf16;
  CHECK_THROWS_WITH_AS(check(narrow, {}, DType::f32), expected.c_str(), InputError);
  narrow = lazy;
  narrow.momentum = MomentumState::f16;
  CHECK_THROWS_WITH_AS(check(narrow, {}, DType::f32), expected.c_str(), InputError);
  narrow.momentum = MomentumState::none;
  CHECK_NOTHROW(check(narrow, {}, DType::f64));
}

}  // namespace heddle::test::deferred
