// The type in which embeddings and classes are multiplied.
#include <doctest/doctest.h>

#include "framework/ops/linear_algebra.h"
#include "tests/support/devices.h"
#include "tests/support/head/head_training.h"

namespace heddle::test {

namespace {

using test::difference;
using test::every_way;
using test::Learned;
using test::some_training;
using test::train;
using test::Training;
using test::Values;
using test::Way;

/// One step with weights in bf16.
Training in_bf16(ProductType type) {
  Training t = some_training(40);
  t.dtype = DType::f32;
  t.steps = 1;
  t.config.tile = 7;
  t.config.weights = WeightState::bf16;
  t.config.product_type = type;
  return t;
}

/// Half the distance of neighbours near one.
constexpr double rounding = 1.0 / 512;

}  // namespace

TEST_CASE("products of 16-bit matrices leave their sums in f32") {
  Device device = test::make_device();
  const Values left = test::normal_values(5 * 9, 1);
  const Values right = test::normal_values(9 * 4, 2);
  for (const DType type : {DType::bf16, DType::f16})
    for (const bool transpose : {false, true}) {
      CAPTURE(name_of(type));
      const Tensor a = test::tensor(device, transpose ? Shape{9, 5} : Shape{5, 9}, left, type);
      const Tensor b = test::tensor(device, transpose ? Shape{4, 9} : Shape{9, 4}, right, type);
      const auto product = [&](const Tensor& x, const Tensor& y) {
        Tensor sums = Tensor::full(device, {5, 4}, DType::f32, 3);
        gemm(x, transpose, y, transpose, 0.5, 2, sums);
        return sums.to_doubles();
      };
      const auto wide = [&](const Tensor& x) { return test::tensor(device, x.shape(), x.to_doubles(), DType::f32); };
      CHECK(difference(product(a, b), product(wide(a), wide(b))) < 1e-6);
    }
  Tensor narrow = Tensor::empty(device, {1, 1}, DType::bf16);
  const Tensor one = Tensor::full(device, {1, 1}, DType::f32, 1);
  CHECK_THROWS_WITH_AS(gemm(one, false, one, false, 1, 0, narrow),
                       "matmul: f32[1,1] and f32[1,1] give f32[1,1], not bf16[1,1]", InputError);
}

TEST_CASE("bf16 products give the losses and gradients of f32's to what rounding their factors does") {
  const Learned reference = train(in_bf16(ProductType::f32), 1);
  Training t = in_bf16(ProductType::bf16);
  const Learned alone = train(t, 1);
  // A cosine of two rounded directions is off by at most one rounding of each, and a logit by that times the scale.
  const double of_logits = 2 * rounding * t.config.margin.scale;
  CHECK(difference(alone.embedding_gradients, reference.embedding_gradients) > 0);
  CHECK(difference(alone.embedding_gradients, reference.embedding_gradients) < 2 * of_logits);
  CHECK(difference(alone.losses, reference.losses) < of_logits);
  for (const Way& way : every_way)
    for (const int ranks : {1, 2, 3}) {
      CAPTURE(static_cast<int>(way.logits));
      CAPTURE(ranks);
      t.config.logits = way.logits;
      t.config.stash = way.stash;
      const Learned learned = train(t, ranks);
      // All round the same factors; gradients, which differ a little by the order of sums, may be rounded differently.
      CHECK(difference(learned.losses, alone.losses) < 2e-5);
      CHECK(difference(learned.embedding_gradients, alone.embedding_gradients) < 2 * rounding);
      CHECK(difference(learned.norms, alone.norms) < 2 * rounding);
      // A weight is kept with eight bits.
      CHECK(difference(learned.weights, alone.weights) < 4 * rounding);
    }
}

TEST_CASE("sampled classes, sub-centres and adamw take bf16 products, too") {
  const auto check_near = [](const auto& change) {
    Training t = in_bf16(ProductType::f32);
    change(t);
    const Learned reference = train(t, 1);
    t.config.product_type = ProductType::bf16;
    for (const int ranks : {1, 3}) {
      const Learned learned = train(t, ranks);
      const double of_logits = 2 * rounding * t.config.margin.scale;
      CHECK(difference(learned.embedding_gradients, reference.embedding_gradients) > 0);
      CHECK(difference(learned.embedding_gradients, reference.embedding_gradients) < 2 * of_logits);
      CHECK(difference(learned.losses, reference.losses) < of_logits);
    }
  };
  check_near([](Training& t) {
    t.config.logits = Logits::fused;
    t.config.sample.rate = 0.3;
    t.config.sample.shards = 2;
  });
  check_near([](Training& t) { t.config.sub_centres = 3; });
  check_near([](Training& t) { t.optimizer.type = OptimizerType::adamw; });
}

TEST_CASE("a stash in bf16 gives what products without one give, also of negative maps and of large scales") {
  const auto check_same = [](const auto& change) {
    Training t = in_bf16(ProductType::bf16);
    t.config.logits = Logits::fused;
    change(t.config);
    const Learned without = train(t, 2);
    t.config.stash = true;
    const Learned with = train(t, 2);
    CHECK(difference(with.losses, without.losses) < 2e-5);
    CHECK(difference(with.embedding_gradients, without.embedding_gradients) < 2 * rounding);
    CHECK(difference(with.weights, without.weights) < 4 * rounding);
  };
  check_same([](HeadConfig& config) { config.margin.type = MarginType::curricularface; });
  check_same([](HeadConfig& config) { config.margin.scale = 128; });  // the reference follows the logits
  check_same([](HeadConfig& config) { config.sample = {.rate = 0.3, .shards = 2}; });
}

TEST_CASE("plan holds and sends what a run with bf16 products does") {
  for (const Way& way : every_way) {
    CAPTURE(static_cast<int>(way.logits));
    Training t = in_bf16(ProductType::bf16);
    t.config.logits = way.logits;
    t.config.stash = way.stash;
    check_planned(t, Mesh(3));
  }
}

TEST_CASE("products are bf16 where that is asked for, or fast for weights that are kept so") {
  HeadConfig config{.classes = 9};
  const auto type = [&config](bool is_fast) { return product_type(config, DType::f32, is_fast); };
  CHECK(type(true) == DType::f32);
  config.weights = WeightState::bf16;
  CHECK(type(true) == DType::bf16);
  CHECK(type(false) == DType::f32);
  config.product_type = ProductType::bf16;
  CHECK(type(false) == DType::bf16);
  config.product_type = ProductType::f32;
  CHECK(type(true) == DType::f32);
  config = {.classes = 9, .normalize = false, .weights = WeightState::bf16};
  CHECK(type(true) == DType::f32);

  constexpr const char* expected =
      "head.product_type: bf16 needs cosines, and weights that are kept in bf16: expected head.state.weights = bf16 "
      "and normalize = true";
  config.product_type = ProductType::bf16;
  CHECK_THROWS_WITH_AS(check(config, {}, DType::f32), expected, InputError);
  config = {.classes = 9, .weights = WeightState::f16, .product_type = ProductType::bf16};
  CHECK_THROWS_WITH_AS(check(config, {}, DType::f32), expected, InputError);
}

}  // namespace heddle::test
