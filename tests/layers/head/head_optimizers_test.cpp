// Every optimizer and type of state trains alike, wherever the logits are and however many ranks share the classes.
#include <set>

#include <doctest/doctest.h>

#include "tests/support/head/head_training.h"

namespace heddle::test {

namespace {

using test::check_alike;
using test::difference;
using test::every_way;
using test::some_training;
using test::train;
using test::Training;
using test::Values;
using test::Way;

}  // namespace

TEST_CASE("adamw and nesterov end alike after three clipped steps, wherever the logits are") {
  for (const OptimizerType type : {OptimizerType::sgd, OptimizerType::adamw}) {
    Training t = some_training(19);
    t.optimizer.type = type;
    t.optimizer.nesterov = true;  // adamw does not read it
    t.optimizer.learning_rate = 0.02;
    const test::Learned reference = train(t, 1);
    REQUIRE(reference.norms[0] > t.clip_norm);
    t.config.tile = 4;
    for (const Way& way : every_way)
      for (const int ranks : {1, 3}) {
        CAPTURE(static_cast<int>(type));
        CAPTURE(static_cast<int>(way.logits));
        CAPTURE(way.stash);
        CAPTURE(ranks);
        t.config.logits = way.logits;
        t.config.stash = way.stash;
        check_alike(train(t, ranks), reference, 1e-11);
      }
  }
}

TEST_CASE("nesterov looks ahead: it ends elsewhere than plain momentum") {
  Training t = some_training(19);
  const Values plain = train(t, 1).weights;
  t.optimizer.nesterov = true;
  CHECK(difference(train(t, 1).weights, plain) > 1e-3);
}

TEST_CASE("adamw steps the sampled classes alike on any number of ranks, the others not at all or with them") {
  Training t = some_training(60);
  t.optimizer.type = OptimizerType::adamw;
  t.optimizer.learning_rate = 0.02;
  t.config.sample = {.rate = 0.3, .shards = 4};
  for (const Unsampled unsampled : {Unsampled::frozen, Unsampled::dense}) {
    t.config.sample.unsampled = unsampled;
    t.config.logits = Logits::sharded;
    const test::Learned reference = train(t, 1);
    for (const Logits logits : {Logits::sharded, Logits::fused})
      for (const int ranks : {2, 3}) {
        t.config.logits = logits;
        check_alike(train(t, ranks), reference, 1e-11);
      }
  }
}

TEST_CASE("narrow rows outside the sample get the same bits on any number of ranks, those in it nearly the same") {
  Training t = some_training(60);
  t.dtype = DType::f32;
  t.config.logits = Logits::fused;
  t.config.sample.rate = 0;  // only the batch's classes
  t.optimizer.learning_rate = 0.05;
  std::set<std::int64_t> touched;
  for (std::int64_t step = 0; step < t.steps; ++step)
    for (const std::int64_t label : t.labels(step)) touched.insert(label);
  for (const WeightState weights : {WeightState::bf16, WeightState::f16, WeightState::int8})
    for (const Unsampled unsampled : {Unsampled::frozen, Unsampled::dense}) {
      CAPTURE(static_cast<int>(weights));
      CAPTURE(static_cast<int>(unsampled));
      t.config.weights = weights;
      t.config.momentum = weights == WeightState::f16 ? MomentumState::f16 : MomentumState::bf16;
      t.config.sample.unsampled = unsampled;
      const Values reference = train(t, 1).weights;
      for (const int ranks : {2, 3, 4}) {
        const Values other = train(t, ranks).weights;
        CHECK(difference(other, reference) < 5e-2);
        for (std::int64_t row = 0; row < t.config.classes; ++row) {
          if (touched.contains(row)) continue;
          for (std::int64_t i = row * t.dimension; i < (row + 1) * t.dimension; ++i)
            CHECK(other[static_cast<std::size_t>(i)] == reference[static_cast<std::size_t>(i)]);
        }
      }
    }
}

}  // namespace heddle::test
