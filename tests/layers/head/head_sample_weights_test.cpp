// Weights of samples: the loss of each counts that often, and the mean is still over the batch.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/compare/close_to.h"
#include "tests/support/head/head_problem.h"
#include "tests/support/head/head_training.h"

namespace heddle::test::head_sample_weights_test {
namespace {

struct Case {
  std::string name;
  HeadConfig config;
};
std::vector<Case> every_margin() {
  return {
      {"softmax", {.margin = {.scale = 2}, .normalize = false, .bias = true}},
      {"arcface", {.margin = {.scale = 16, .combined = {.m2 = 0.4}}}},
      {"psi", {.margin = {.scale = 16, .combined = {.m1 = 3, .beyond_pi = BeyondPi::psi}}}},
      {"filter", {.margin = {.scale = 16, .combined = {.m2 = 0.4, .filter = 0.2}}}},
      {"l_softmax", {.margin = {.type = MarginType::l_softmax, .scale = 2, .l_softmax = {.m = 3}}, .normalize = false}},
      {"adaface", {.margin = {.type = MarginType::adaface, .scale = 16, .adaface = {.momentum = 0.5}}}},
      {"curricularface",
       {.margin = {.type = MarginType::curricularface, .scale = 16, .curricularface = {.momentum = 0.5}}}},
      {"sub_centres", {.margin = {.scale = 16, .combined = {.m2 = 0.4}}, .sub_centres = 3}},
      {"own losses",
       {.margin = {.scale = 16, .combined = {.m2 = 0.4}}, .loss_reduction = LossReduction::reduce_scatter}},
  };
}

Training training_of(const Case& margin, std::int64_t classes) {
  Training t;
  t.config = margin.config;
  t.config.classes = classes;
  t.config.tile = 3;
  t.has_weights = true;
  return t;
}

}  // namespace

TEST_CASE("a weighted loss is the sum of weights times losses over the number of samples, not over the weights") {
  Problem problem = random_problem(5, 7, 4, 40);
  problem.config.margin = {.scale = 8, .combined = {.m2 = 0.3}};
  const Values weights{2, 0, 0.5, 1, 7};
  double expected = 0;
  for (std::int64_t i = 0; i < 5; ++i) {
    Problem one = problem;
    one.labels = {problem.labels[static_cast<std::size_t>(i)]};
    one.embeddings = part(problem.embeddings, 4, {i, 1});
    expected += weights[static_cast<std::size_t>(i)] * solve(one, 1).loss / 5;
  }
  problem.sample_weights = weights;
  for (const Way& way : every_way) {
    problem.config.logits = way.logits;
    problem.config.stash = way.stash;
    CHECK(solve(problem, 1).loss == close_to(expected).epsilon(1e-13));
    CHECK(solve(problem, 3, 2).loss == close_to(expected).epsilon(1e-13));
  }
  problem.config.loss_reduction = LossReduction::reduce_scatter;
  const Answer own = solve(problem, 3);
  CHECK(own.loss == close_to(expected).epsilon(1e-13));
  CHECK(own.losses[1] == 0);
  double sum = 0;
  for (const double loss : own.losses) sum += loss;
  CHECK(sum / 5 == close_to(expected).epsilon(1e-13));
}

TEST_CASE("weighted gradients are the finite differences of the weighted loss") {
  const std::vector<MarginConfig> margins{
      {.scale = 8, .combined = {.m2 = 0.3}},
      {.type = MarginType::l_softmax, .scale = 2, .l_softmax = {.m = 3}},
      {.type = MarginType::curricularface, .scale = 8},
  };
  for (const MarginConfig& margin : margins) {
    Problem problem = random_problem(4, 6, 5, 41);
    problem.config.margin = margin;
    problem.config.normalize = margin.type != MarginType::l_softmax;
    problem.sample_weights = {3, 0, 0.25, 1};
    const Values embeddings = numeric_gradient(problem, &Problem::embeddings);
    const Values weights = numeric_gradient(problem, &Problem::weights);
    for (const Way& way : every_way)
      for (const int ranks : {1, 3}) {
        CAPTURE(static_cast<int>(way.logits));
        CAPTURE(ranks);
        problem.config.logits = way.logits;
        problem.config.stash = way.stash;
        const Answer answer = solve(problem, ranks, 2);
        CHECK(difference(answer.embedding_gradient, embeddings) < 1e-7);
        CHECK(difference(answer.weight_gradient, weights) < 1e-7);
        for (std::size_t i = 5; i < 10; ++i) CHECK(answer.embedding_gradient[i] == 0);
      }
  }
}

TEST_CASE("weights of 1 change no bit") {
  Problem problem = random_problem(6, 9, 5, 42);
  for (const Way& way : every_way)
    for (const DType dtype : {DType::f64, DType::f32}) {
      problem.config.logits = way.logits;
      problem.config.stash = way.stash;
      problem.sample_weights.clear();
      const Answer without = solve(problem, 2, 2, dtype);
      problem.sample_weights.assign(6, 1.0);
      const Answer with = solve(problem, 2, 2, dtype);
      CHECK(with.loss == without.loss);
      CHECK(with.embedding_gradient == without.embedding_gradient);
      CHECK(with.weight_gradient == without.weight_gradient);
    }
}

TEST_CASE("every margin trains weighted samples alike wherever the logits are and however many ranks") {
  for (const Case& margin : every_margin()) {
    CAPTURE(margin.name);
    check_every_way(training_of(margin, 11), {2, 3});
  }
}

TEST_CASE("weighted samples go with sampled classes, replicated heads and copies") {
  Training t = training_of({"arcface", {.margin = {.scale = 16, .combined = {.m2 = 0.4}}}}, 40);
  const Learned serial = train(t, 1);
  t.config.over = AxisSet{Axis::tp};
  check_alike(train(t, Mesh(2, 1, 2)), serial, 1e-12);
  t.config.over = every_axis;
  t.config.sample = {.rate = 0.3, .correction = true, .shards = 4};
  const Learned sampled = train(t, 1);
  for (const Way& way : {Way{Logits::sharded}, Way{Logits::fused}, Way{Logits::fused, true}}) {
    t.config.logits = way.logits;
    t.config.stash = way.stash;
    check_alike(train(t, 3), sampled, 1e-12);
  }
  Problem problem = random_problem(5, 7, 4, 43);
  problem.sample_weights = {2, 0, 0.5, 1, 7};
  const Answer one = solve(problem, 1);
  problem.config.parallel = HeadParallel::replicated;
  const Answer replicated = solve(problem, 3);
  CHECK(replicated.loss == close_to(one.loss).epsilon(1e-12));
  CHECK(difference(replicated.embedding_gradient, one.embedding_gradient) < 1e-12);
}

TEST_CASE("plan holds and sends what a run with weights does, which sends nothing more than one without" *
          doctest::test_suite(test::long_under_sanitizers)) {
  for (const Case& margin : every_margin())
    for (const Way& way : every_way) {
      if (!fits(margin.config, way)) continue;
      CAPTURE(margin.name);
      CAPTURE(static_cast<int>(way.logits));
      Training t = training_of(margin, 50);
      t.dtype = DType::f32;
      t.config.logits = way.logits;
      t.config.stash = way.stash;
      check_planned(t, Mesh(3));
      const Learned weighted = train(t, 3);
      t.has_weights = false;
      CHECK(train(t, 3).sent == weighted.sent);
    }
}

}  // namespace heddle::test::head_sample_weights_test
