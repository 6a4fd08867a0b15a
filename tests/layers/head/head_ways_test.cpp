// All ways to hold the logits, to keep the classes and to shard them train alike.
#include <cmath>
#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "parallel/world.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/head/head_training.h"
#include "tests/support/message.h"
#include "tests/support/ranks.h"

namespace heddle::test {

namespace {

using test::check_alike;
using test::difference;
using test::every_way;
using test::Learned;
using test::some_training;
using test::train;
using test::Training;
using test::Values;
using test::Way;

}  // namespace

TEST_CASE("three clipped steps of three micro-batches end alike, wherever the logits are and however many ranks") {
  // Uneven shards, a tile's boundary within and between them, ranks without a class or a sample.
  for (const std::int64_t classes : {11, 40, 3}) {
    CAPTURE(classes);
    for (const DType dtype : {DType::f64, DType::f32}) {
      Training t = some_training(classes);
      t.dtype = dtype;
      const Learned reference = train(t, 1);
      REQUIRE(reference.norms[0] > t.clip_norm);
      for (const Way& way : every_way)
        for (const int ranks : {1, 2, 3, 4}) {
          CAPTURE(static_cast<int>(way.logits));
          CAPTURE(way.stash);
          CAPTURE(ranks);
          t.config.logits = way.logits;
          t.config.stash = way.stash;
          t.config.tile = 3;
          check_alike(train(t, ranks), reference, dtype == DType::f64 ? 1e-12 : 2e-5);
        }
    }
  }
}

TEST_CASE("fused follows the largest logit where their exponentials could overflow") {
  Training t = some_training(23);
  t.config.margin.scale = 5000;
  t.config.margin.combined.m2 = 0;
  t.clip_norm = 0;
  t.optimizer.learning_rate = 1e-5;
  for (const bool normalize : {true, false}) {
    t.config.normalize = normalize;
    if (!normalize) t.config.margin = {.scale = 1};
    t.config.logits = Logits::sharded;
    const Learned reference = train(t, 1);
    t.config.logits = Logits::fused;
    t.config.tile = 4;
    for (const bool stash : {false, true})
      for (const int ranks : {1, 3}) {
        t.config.stash = stash;
        check_alike(train(t, ranks), reference, 1e-11);
      }
    t.config.stash = false;
  }
}

TEST_CASE("fused stays finite with short weights and the largest scale that needs no running maximum") {
  Training t = some_training(40);
  t.dtype = DType::f32;
  t.clip_norm = 0;
  t.optimizer.learning_rate = 1e-12;
  for (const double scale : {30.0, 64.0, 84.0})
    for (const double deviation : {1e-2, 1e-6, 1e-10}) {
      CAPTURE(scale);
      CAPTURE(deviation);
      t.config.margin = {.scale = scale};
      t.config.initial_deviation = deviation;
      t.config.logits = Logits::sharded;
      const Learned reference = train(t, 2);
      t.config.logits = Logits::fused;
      for (const bool stash : {false, true}) {
        t.config.stash = stash;
        const Learned fused = train(t, 2);
        CHECK(difference(fused.losses, reference.losses) < 2e-5);
        CHECK(difference(fused.embedding_gradients, reference.embedding_gradients) < 2e-5);
        CHECK(difference(fused.norms, reference.norms) < 2e-5);
      }
      t.config.stash = false;
    }
}

TEST_CASE("steps without a loss change no gradient and exchange no target") {
  Training t = some_training(12);
  t.steps = 4;
  for (const Logits logits : {Logits::sharded, Logits::fused, Logits::transposed, Logits::gathered}) {
    t.config.logits = logits;
    t.config.loss_every = 1;
    const Learned always = train(t, 3);
    t.config.loss_every = 2;
    const Learned seldom = train(t, 3);
    CHECK(seldom.has_loss == std::vector<bool>{true, false, true, false});
    CHECK(seldom.embedding_gradients == always.embedding_gradients);
    CHECK(seldom.weights == always.weights);
    if (logits != Logits::gathered) CHECK(seldom.sent[1] < always.sent[1]);
  }
}

TEST_CASE("plan holds and sends what a run does, for every way and state") {
  for (const Way& way : every_way)
    for (const WeightState weights : {WeightState::f32, WeightState::bf16, WeightState::int8}) {
      Training t = some_training(200);
      t.dtype = DType::f32;
      t.config.logits = way.logits;
      t.config.stash = way.stash;
      t.config.tile = 7;
      t.config.weights = weights;
      t.config.momentum = weights == WeightState::int8 ? MomentumState::none : MomentumState::bf16;
      check_planned(t, Mesh(3));
    }
}

TEST_CASE("narrow state follows f32 state as closely as its digits let it") {
  Training t = some_training(30);
  t.dtype = DType::f32;
  t.config.logits = Logits::fused;
  t.optimizer.learning_rate = 0.05;
  const Learned reference = train(t, 1);
  const auto apart = [&](WeightState weights, MomentumState momentum) {
    t.config.weights = weights;
    t.config.momentum = momentum;
    return difference(train(t, 2).weights, reference.weights);
  };
  CHECK(apart(WeightState::bf16, MomentumState::bf16) < 3e-2);
  CHECK(apart(WeightState::bf16, MomentumState::bf16) > 1e-5);
  CHECK(apart(WeightState::f16, MomentumState::f16) < 4e-3);
  CHECK(apart(WeightState::int8, MomentumState::f32) < 5e-2);
}

TEST_CASE("a sampled step is the step of a head that has the sampled classes alone, on any number of ranks") {
  Training t = some_training(60);
  t.config.sample = {.rate = 0.3, .shards = 4};
  t.config.tile = 4;
  for (const Unsampled unsampled : {Unsampled::frozen, Unsampled::dense}) {
    t.config.sample.unsampled = unsampled;
    t.config.logits = Logits::sharded;
    const Learned reference = train(t, 1);
    for (const Way& way : {Way{Logits::sharded}, Way{Logits::fused}, Way{Logits::fused, true}})
      for (const int ranks : {1, 2, 3}) {
        t.config.logits = way.logits;
        t.config.stash = way.stash;
        check_alike(train(t, ranks), reference, 1e-12);
      }
    t.config.stash = false;
  }
}

TEST_CASE("rate 1 is the full head, to the bit") {
  Training t = some_training(40);
  t.config.logits = Logits::fused;
  const Learned full = train(t, 2);
  t.config.sample.shards = 5;
  CHECK(train(t, 2).weights == full.weights);
}

TEST_CASE("rows outside the sample stay, or decay and move on by their momentum") {
  Training t = some_training(50);
  t.config.logits = Logits::fused;
  t.config.sample.rate = 0;  // only the batch's classes
  t.clip_norm = 0;
  std::set<std::int64_t> touched;
  for (std::int64_t step = 0; step < t.steps; ++step)
    for (const std::int64_t label : t.labels(step)) touched.insert(label);
  const auto stepped = [&](Unsampled unsampled, std::int64_t steps) {
    t.config.sample.unsampled = unsampled;
    t.steps = steps;
    return train(t, 2).weights;
  };
  const Values before = stepped(Unsampled::frozen, 0);
  const Values frozen = stepped(Unsampled::frozen, 3);
  const Values dense = stepped(Unsampled::dense, 3);
  // Without a gradient: v = decay * w, then v = 0.9 v + decay * w; w -= rate * v.
  double factor = 1;
  double velocity = 0;
  for (int step = 0; step < 3; ++step) {
    velocity = 0.9 * velocity + t.optimizer.weight_decay * factor;
    factor -= t.optimizer.learning_rate * velocity;
  }
  for (std::int64_t row = 0; row < 50; ++row)
    for (std::int64_t i = row * t.dimension; i < (row + 1) * t.dimension; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (touched.count(row) != 0) {
        CHECK(frozen[at] != before[at]);
        continue;
      }
      CHECK(frozen[at] == before[at]);
      CHECK(dense[at] == close_to(factor * before[at]).epsilon(1e-12));
    }
}

TEST_CASE("the correction makes the sampled sum of exponentials unbiased") {
  Training t = some_training(400);
  t.config.margin = {.scale = 4};
  t.config.logits = Logits::fused;
  t.micro_batches = 1;
  t.clip_norm = 0;
  t.optimizer = {.learning_rate = 1e-30, .momentum = 0};
  t.steps = 1;
  const double exact = train(t, 1).losses[0];
  t.config.sample.rate = 0.25;
  const double biased = train(t, 2).losses[0];
  t.config.sample.correction = true;
  double mean = 0;
  constexpr int draws = 40;
  for (int shards = 1; shards <= draws; ++shards) {  // each samples differently
    t.config.sample.shards = shards;
    mean += train(t, 2).losses[0] / draws;
  }
  CHECK(exact - biased > 1);
  CHECK(std::abs(mean - exact) < 0.05);
}

TEST_CASE("an embedding that is not finite is named with its sample and rank") {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const auto run = [&] {
      run_ranks(test::ranks(2), [&](Rank& rank) {
        Construction construction{rank.device, rank.key, DType::f32};
        Head head({.classes = 10, .logits = Logits::fused}, {}, 4, rank, construction);
        const std::vector<std::int64_t> labels{1, 2, 3, 4};
        head.begin_step(0, labels);
        Values embedding(8, 1.0);
        if (rank.index == 1) embedding[5] = bad;
        (void)head.forward_backward({.embedding = test::tensor(rank.device, {2, 4}, embedding, DType::f32),
                                     .labels = std::span(labels).subspan(rank.index == 1 ? 2 : 0, 2),
                                     .samples = {{0, 2}, {2, 2}},
                                     .global_batch = 4});
      });
    };
    CHECK_THROWS_WITH_AS(
        run(), "head: the embedding of sample 3 of the batch, on rank 1, is not finite: the training has diverged",
        RankFailed);
  }
}

TEST_CASE("a dense gradient of a sample gives the weights of its rows, and plan counts it") {
  for (const WeightState weights : {WeightState::f32, WeightState::bf16})
    for (const bool is_plain : {false, true})
      for (const Logits logits : {Logits::sharded, Logits::fused}) {
        Training t = some_training(60);
        if (weights != WeightState::f32) t.dtype = DType::f32;
        t.config.weights = weights;
        if (is_plain) t.config.margin = {.scale = 1};
        t.config.normalize = !is_plain;
        t.config.bias = is_plain;
        t.config.logits = logits;
        t.config.tile = 4;
        t.config.sample = {.rate = 0.3, .unsampled = Unsampled::dense, .shards = 2};
        CAPTURE(static_cast<int>(weights));
        CAPTURE(is_plain);
        const Learned rows = train(t, 1);
        t.config.sample.gradient = SampleGradient::dense;
        // bf16: a few elements are rounded to their other neighbour.
        for (const Mesh& mesh : {Mesh(), Mesh(3), Mesh(2, 1, 2)})
          check_alike(train(t, mesh), rows, weights == WeightState::f32 ? 1e-12 : 5e-2);
        t.config.over = {Axis::dp};
        check_alike(train(t, Mesh(2, 1, 2)), rows, weights == WeightState::f32 ? 1e-12 : 5e-2);
        check_planned(t, Mesh(2, 1, 2));
      }
}

TEST_CASE("a dense gradient is held whole, and only where it is asked for") {
  const auto held = [](SampleGradient gradient) {
    Training t = some_training(100'000);
    t.backend = "plan";
    t.dtype = DType::f32;
    t.config.sample = {.rate = 0.1, .unsampled = Unsampled::dense, .gradient = gradient};
    return train(t, 2).peaks[0][Category::gradients];
  };
  CHECK(held(SampleGradient::rows) == 0);
  CHECK(held(SampleGradient::dense) == 50'000 * 6 * 4);
}

TEST_CASE("settings of a head that contradict each other are refused") {
  const auto said = [](const HeadConfig& config, const OptimizerConfig& optimizer = {}, DType dtype = DType::f32) {
    return message_of<InputError>([&] { check(config, optimizer, dtype); });
  };
  CHECK(said({.classes = 9}) == "no error");
  CHECK(said({.classes = 9, .over = {Axis::pp}}) == "no error");
  CHECK(said({.classes = 9, .over = {}}) ==
        "head.over: expected at least one axis: a head whose classes no ranks share is one with head.parallel = "
        "replicated");
  CHECK(said({.classes = 9, .parallel = HeadParallel::replicated, .over = {Axis::dp, Axis::tp}}) ==
        "head.over: ranks of a replicated head share no classes: expected all, got dp x tp");
  CHECK(said({.classes = 9, .sample = {.unsampled = Unsampled::dense, .gradient = SampleGradient::dense}}) ==
        "head.sample.gradient: only a sample has a dense gradient: expected head.sample.rate < 1");
  CHECK(said({.classes = 9, .sample = {.rate = 0.5, .gradient = SampleGradient::dense}}) ==
        "head.sample.gradient: a dense gradient steps all classes: expected head.sample.unsampled = dense");
  CHECK(said({.classes = 9, .stash = true}) == "head.stash: only fused logits have something to keep");
  CHECK(said({.classes = 9, .logits = Logits::gathered, .sample = {.rate = 0.5}}) ==
        "head.sample: sampled logits are not gathered or transposed: expected sharded or fused");
  CHECK(said({.classes = 9, .parallel = HeadParallel::replicated, .logits = Logits::transposed}) ==
        "head.logits: a replicated head has all classes' logits: expected sharded or fused");
  CHECK(said({.classes = 9, .parallel = HeadParallel::replicated, .sample = {.rate = 0.5}}) ==
        "head.sample: a replicated head has no shards to sample");
  CHECK(said({.classes = 9, .momentum = MomentumState::none}, {.type = OptimizerType::adamw}) ==
        "head.state.momentum: adamw keeps its mean and its square in f32: expected f32");
  CHECK(said({.classes = 9, .weights = WeightState::int8}, {}, DType::f64) ==
        "head.state: 16-bit and 8-bit state needs computing in f32: expected f32 state with train.dtype = f64");
  CHECK(
      said({.classes = 9, .parallel = HeadParallel::replicated, .weights = WeightState::bf16}) ==
      "head.state: a replicated head is stepped with the other parameters: expected f32 weights and momentum, or with "
      "sgd both in bf16 or both in f16");
  CHECK(said({.classes = 9, .parallel = HeadParallel::replicated, .weights = WeightState::int8})
            .starts_with("head.state: a replicated head is stepped with the other parameters:"));
  CHECK(said({.classes = 9,
              .parallel = HeadParallel::replicated,
              .weights = WeightState::f16,
              .momentum = MomentumState::f16}) == "no error");
}

}  // namespace heddle::test
