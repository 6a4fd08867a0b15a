// Classes that are shared along some axes of the mesh and copied along the others.
#include <cmath>

#include <doctest/doctest.h>

#include "parallel/world.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/head/head_problem.h"
#include "tests/support/head/head_samples.h"
#include "tests/support/head/head_training.h"
#include "tests/support/layouts.h"

namespace heddle::test {

namespace {

using test::check_alike;
using test::every_way;
using test::Learned;
using test::random_axes;
using test::some_training;
using test::train;
using test::Training;
using test::Way;

/// One to three ranks along dp, one or two along tp and, if all stages take part in the head, along pp.
Mesh random_mesh(RandomStream& draws, const AxisSet& over) {
  const auto some = [&] { return 1 + static_cast<int>(draws.below(2)); };
  const int dp = 1 + static_cast<int>(draws.below(3));
  return Mesh(dp, over.contains(Axis::pp) ? some() : 1, some());
}

MarginConfig random_margin(RandomStream& draws) {
  switch (draws.below(4)) {
    case 0:
      return {.type = MarginType::adaface, .scale = 16, .adaface = {.momentum = 0.5}};
    case 1:
      return {.type = MarginType::curricularface, .scale = 16, .curricularface = {.momentum = 0.5}};
    default:
      return {.scale = 16, .combined = {.m1 = 1, .m2 = 0.4, .m3 = 0.1}};
  }
}

Training random_training(RandomStream& draws) {
  Training t = some_training(3 + static_cast<std::int64_t>(draws.below(50)));
  t.seed = draws.below(1000);
  t.batch = 1 + static_cast<std::int64_t>(draws.below(17));
  t.dtype = draws.below(2) == 0 ? DType::f64 : DType::f32;
  t.config.margin = random_margin(draws);
  t.config.tile = 1 + static_cast<std::int64_t>(draws.below(6));
  if (draws.below(3) == 0) t.config.sub_centres = 2;
  if (draws.below(3) == 0) t.config.loss_reduction = LossReduction::reduce_scatter;
  if (draws.below(3) == 0) t.clip_norm = 0;
  if (draws.below(4) == 0) {
    t.optimizer.type = OptimizerType::adamw;
    t.optimizer.learning_rate = 0.02;
    t.dtype = DType::f64;  // adamw divides by the root of squares, which magnifies rounding
  }
  if (draws.below(4) == 0) {
    t.config.margin = {.scale = 1};
    t.config.normalize = false;
    t.config.bias = true;
    t.config.sub_centres = 1;
  }
  if (draws.below(2) == 0) return t;
  t.config.classes += 20;  // the gradient of a sample of one class is only rounding errors
  t.config.sample = {.rate = 0.3, .unsampled = static_cast<Unsampled>(draws.below(3)), .shards = 4};
  if (t.optimizer.type == OptimizerType::adamw && t.config.defers_steps()) t.config.sample.unsampled = Unsampled::dense;
  t.config.sample.correction = draws.below(2) == 0;
  return t;
}

void draw_way(RandomStream& draws, HeadConfig& config) {
  Way way = every_way[draws.below(every_way.size())];
  if (config.samples() && way.logits != Logits::sharded) way.logits = Logits::fused;
  config.logits = way.logits;
  config.stash = way.stash && config.sub_centres == 1;
}

}  // namespace

TEST_CASE("heads over random axes of random meshes train as that of one rank, and copies keep the same bits" *
          doctest::test_suite(test::long_under_sanitizers)) {
  int with_copies = 0;
  int with_splits = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    RandomStream draws({seed}, Purpose::test, 11, 0);
    Training t = random_training(draws);
    const Learned reference = train(t, 1);
    t.config.over = random_axes(draws);
    const Mesh mesh = random_mesh(draws, t.config.over);
    draw_way(draws, t.config);
    const bool is_split = draws.below(3) == 0;
    if (is_split) t.config.split = test::random_split(draws, t.config.classes, mesh.size(t.config.over));
    with_splits += is_split ? 1 : 0;
    with_copies += mesh.size(t.config.copy_axes()) > 1 ? 1 : 0;
    CAPTURE(seed);
    CAPTURE(to_string(mesh));
    CAPTURE(to_string(t.config.over));
    CAPTURE(static_cast<int>(t.config.logits));
    const double f64 = t.optimizer.type == OptimizerType::adamw ? 1e-11 : 1e-12;
    check_alike(train(t, mesh), reference, t.dtype == DType::f64 ? f64 : 2e-5);
  }
  CHECK(with_copies > 100);
  CHECK(with_splits > 100);
}

TEST_CASE("copies of classes in 16 and 8 bits, rounded at random, keep the same bits") {
  for (const WeightState weights : {WeightState::bf16, WeightState::f16, WeightState::int8})
    for (const AxisSet& over : {AxisSet{Axis::dp}, AxisSet{Axis::tp}, AxisSet{Axis::pp}}) {
      Training t = some_training(40);
      t.dtype = DType::f32;
      t.config.weights = weights;
      t.config.momentum = weights == WeightState::f16 ? MomentumState::f16 : MomentumState::bf16;
      t.config.logits = Logits::fused;
      t.config.tile = 7;
      const Learned reference = train(t, 1);
      t.config.over = over;
      const Mesh mesh(2, over.contains(Axis::pp) ? 2 : 1, 2);
      REQUIRE(mesh.size(t.config.copy_axes()) > 1);
      // `train` compares the copies; a few elements are rounded otherwise than those of one rank.
      CHECK(test::difference(train(t, mesh).weights, reference.weights) < 5e-2);
    }
}

TEST_CASE("plan holds and sends what ranks with copies do, tile by tile") {
  for (const AxisSet& over : {AxisSet{Axis::dp}, AxisSet{Axis::tp}, AxisSet{Axis::pp}, AxisSet{Axis::dp, Axis::pp}})
    for (const Way& way : every_way) {
      CAPTURE(to_string(over));
      CAPTURE(static_cast<int>(way.logits));
      Training t = some_training(200);
      t.dtype = DType::f32;
      t.config.over = over;
      t.config.logits = way.logits;
      t.config.stash = way.stash;
      t.config.tile = 7;
      const Mesh mesh(2, over.contains(Axis::pp) ? 2 : 1, 2);
      check_planned(t, mesh);
    }
}

TEST_CASE("plan holds and sends what ranks with the classes of a split do, also with a sample") {
  for (const bool samples : {false, true})
    for (const Way& way : every_way) {
      if (samples && way.logits != Logits::sharded && way.logits != Logits::fused) continue;
      CAPTURE(static_cast<int>(way.logits));
      Training t = some_training(200);
      t.dtype = DType::f32;
      t.config.logits = way.logits;
      t.config.stash = way.stash;
      t.config.tile = 7;
      t.config.split = {30, 0, 101, 69};
      if (samples) t.config.sample = {.rate = 0.2, .unsampled = Unsampled::lazy};
      check_planned(t, Mesh(2, 1, 2));
      t.config.over = {Axis::dp};
      t.config.split = {151, 49};
      check_planned(t, Mesh(2, 1, 2));
    }
}

TEST_CASE("no rank with copies holds a gradient of all its classes") {
  const auto workspace = [](std::int64_t classes) {
    Training t = some_training(classes);
    t.backend = "plan";
    t.config.over = {Axis::dp};
    t.config.logits = Logits::fused;
    t.config.tile = 16;
    const MemoryUse peak = train(t, Mesh(2, 1, 2)).peaks[0];
    return peak[Category::workspace] + peak[Category::communication] + peak[Category::gradients];
  };
  CHECK(workspace(100'000) == workspace(1000));
}

TEST_CASE("each rank gets its own samples' losses, and all ranks their sum, whichever axes share the classes") {
  for (const AxisSet& over : {AxisSet{Axis::dp}, AxisSet{Axis::tp}, AxisSet{Axis::pp}, every_axis}) {
    test::Problem problem = test::random_problem(9, 14, 5, 21);
    problem.config.margin = {.scale = 8, .combined = {.m2 = 0.3}};
    problem.config.loss_reduction = LossReduction::reduce_scatter;
    const test::Answer serial = test::solve(problem, 1);
    problem.config.over = over;
    const test::Answer answer = test::solve(problem, Mesh(2, over.contains(Axis::pp) ? 2 : 1, 2), 2);
    CHECK(answer.loss == close_to(serial.loss).epsilon(1e-12));
    CHECK(test::difference(answer.losses, serial.losses) < 1e-12);
    CHECK(test::difference(answer.embedding_gradient, serial.embedding_gradient) < 1e-12);
    CHECK(test::difference(answer.weight_gradient, serial.weight_gradient) < 1e-12);
  }
}

TEST_CASE("the running statistics of margins on copies, which saw different samples, equal those of one rank") {
  for (const MarginType type : {MarginType::adaface, MarginType::curricularface}) {
    test::Problem problem = test::random_problem(8, 14, 5, 22);
    problem.config.margin = {.type = type, .scale = 8};
    const std::vector<double> serial = test::running_after_step(problem, Mesh(), 2);
    for (const AxisSet& over : {AxisSet{Axis::dp}, AxisSet{Axis::tp}}) {
      problem.config.over = over;
      CHECK(test::difference(test::running_after_step(problem, Mesh(2, 1, 2), 2), serial) < 1e-12);
    }
  }
}

TEST_CASE("logits that are not finite name their sample, whichever ranks share the classes") {
  for (const AxisSet& over : {AxisSet{Axis::dp}, AxisSet{Axis::tp}}) {
    WorldOptions options{.mesh = Mesh(2, 1, 2)};
    options.backend_options.threads = 1;
    const auto run = [&] {
      run_ranks(options, [&](Rank& rank) {
        const HeadConfig config{
            .classes = 9, .over = over, .margin = {.scale = 1}, .normalize = false, .initial_deviation = 1e30};
        Construction construction{rank.device, rank.key, DType::f32};
        Head head(config, {}, 4, rank, construction);
        const std::vector<std::int64_t> labels{1, 2, 3, 4};
        head.begin_step(0, labels);
        const auto index = static_cast<std::size_t>(rank.index);
        // Finite, but not its products.
        const Tensor embedding = Tensor::full(rank.device, {1, 4}, DType::f32, rank.index == 2 ? 1e15 : 1);
        (void)head.forward_backward({.embedding = embedding,
                                     .labels = std::span(labels).subspan(index, 1),
                                     .samples = test::shared_samples(config, rank.mesh, rank.index, 4, 1, 0),
                                     .global_batch = 4,
                                     .while_reducing = [] {}});
      });
    };
    CHECK_THROWS_WITH_AS(run(), "head: the logits of sample 2 of the batch are not finite: the training has diverged",
                         RankFailed);
  }
}

}  // namespace heddle::test
