// Margins: their maps computed by hand, the head's gradients on both sides of every boundary, and their running
// statistics.
#include <cmath>
#include <numeric>
#include <string>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/head/head_problem.h"
#include "tests/support/message.h"

namespace heddle::test {

namespace {

using test::Answer;
using test::difference;
using test::numeric_gradient;
using test::Problem;
using test::random_problem;
using test::solve;
using test::Values;

constexpr double pi = 3.14159265358979323846;

double dot(const double* a, const double* b, std::int64_t d) {
  return std::inner_product(a, a + d, b, 0.0);
}

double cosine_of(const Problem& problem, std::int64_t row, std::int64_t weight) {
  const std::int64_t d = problem.dimension;
  const double* const x = problem.embeddings.data() + row * d;
  const double* const w = problem.weights.data() + weight * d;
  return dot(x, w, d) / std::sqrt(dot(x, x, d) * dot(w, w, d));
}

/// Turns a weight so that it has this cosine with a row's embedding; its length stays the same.
void place(Problem& problem, std::int64_t row, std::int64_t weight, double cosine) {
  const std::int64_t d = problem.dimension;
  const double* const x = problem.embeddings.data() + row * d;
  double* const w = problem.weights.data() + weight * d;
  const double norm = std::sqrt(dot(w, w, d));
  const double along = dot(x, w, d) / dot(x, x, d);
  for (std::int64_t i = 0; i < d; ++i) w[i] -= along * x[i];
  const double across = std::sqrt(dot(w, w, d));
  const double length = std::sqrt(dot(x, x, d));
  for (std::int64_t i = 0; i < d; ++i)
    w[i] = norm * (cosine * x[i] / length + std::sqrt(1 - cosine * cosine) * w[i] / across);
}

/// Four rows with different classes, and classes without rows.
Problem four_rows(const MarginConfig& margin) {
  Problem problem = random_problem(4, 8, 6, 77);
  problem.labels = {0, 1, 2, 3};
  problem.config.margin = margin;
  return problem;
}

/// The part of a gradient by the embeddings that does not change their lengths.
Values across_embeddings(const Problem& problem, Values gradient) {
  const std::int64_t d = problem.dimension;
  for (std::int64_t row = 0; row < problem.batch(); ++row) {
    const double* const x = problem.embeddings.data() + row * d;
    double* const g = gradient.data() + row * d;
    const double along = dot(g, x, d) / dot(x, x, d);
    for (std::int64_t i = 0; i < d; ++i) g[i] -= along * x[i];
  }
  return gradient;
}

/// A step this small does not cross a boundary that is 0.002 away.
constexpr double small_step = 1e-4;

void check_gradients(const Problem& problem) {
  const Answer answer = solve(problem, 2, 2);
  Values by_embedding = numeric_gradient(problem, &Problem::embeddings, small_step);
  // AdaFace treats the norm as a constant.
  if (problem.config.margin.type == MarginType::adaface) by_embedding = across_embeddings(problem, by_embedding);
  CHECK(difference(answer.embedding_gradient, by_embedding) < 1e-7);
  CHECK(difference(answer.weight_gradient, numeric_gradient(problem, &Problem::weights, small_step)) < 1e-7);
}

/// Puts the rows' targets a little below and above these cosines, for two boundaries at a time.
void check_around(Problem problem, const Values& boundaries) {
  for (std::size_t i = 0; i < boundaries.size(); i += 2) {
    for (std::int64_t row = 0; row < 4; ++row) {
      const double boundary = boundaries[std::min(i + static_cast<std::size_t>(row / 2), boundaries.size() - 1)];
      place(problem, row, row, boundary + (row % 2 == 0 ? -0.002 : 0.002));
    }
    CAPTURE(boundaries[i]);
    check_gradients(problem);
  }
}

/// Where m times the angle passes a multiple of pi.
Values turns_of(double m) {
  Values cosines;
  for (int k = 1; k < m; ++k) cosines.push_back(std::cos(k * pi / m));
  return cosines;
}

MarginConfig l_softmax(std::int64_t m) {
  return {.type = MarginType::l_softmax, .scale = 1, .l_softmax = {.m = m}};
}
MarginConfig adaface() {
  return {.type = MarginType::adaface, .scale = 8};
}
MarginConfig curricularface() {
  return {.type = MarginType::curricularface, .scale = 8};
}

}  // namespace

TEST_CASE("psi equals the polynomials that L-Softmax and SphereFace publish, continued downwards") {
  for (double theta = 0.01; theta < pi; theta += 0.05) {
    const double c = std::cos(theta);
    const auto psi = [&](double m) {
      return margin_target(MarginConfig{.combined = {.m1 = m, .beyond_pi = BeyondPi::psi}}, c).phi;
    };
    const int half = theta < pi / 2 ? 0 : 1;
    const int quarter = static_cast<int>(4 * theta / pi);
    CHECK(psi(1) == close_to(c).epsilon(1e-12));
    CHECK(psi(2) == close_to((half == 0 ? 1 : -1) * (2 * c * c - 1) - 2 * half).epsilon(1e-9));
    CHECK(psi(4) ==
          close_to((quarter % 2 == 0 ? 1 : -1) * (8 * c * c * c * c - 8 * c * c + 1) - 2 * quarter).epsilon(1e-9));
    CHECK(margin_target(l_softmax(4), 3 * c, 3.0).phi == close_to(3 * psi(4)).epsilon(1e-12));
  }
}

TEST_CASE("beyond pi a margin continues by its cosine, along a line, or not at all") {
  const auto phi = [](BeyondPi beyond, double c) {
    return margin_target(MarginConfig{.combined = {.m2 = 0.5, .m3 = 0.1, .beyond_pi = beyond}}, c).phi;
  };
  const double within = std::cos(std::acos(0.2) + 0.5) - 0.1;
  for (const BeyondPi beyond : {BeyondPi::cosine, BeyondPi::linear, BeyondPi::easy, BeyondPi::psi})
    CHECK(phi(beyond, 0.2) == close_to(within));
  CHECK(phi(BeyondPi::cosine, -0.95) == close_to(std::cos(std::acos(-0.95) + 0.5) - 0.1));
  CHECK(phi(BeyondPi::linear, -0.95) == close_to(-0.95 - 0.5 * std::sin(pi - 0.5) - 0.1));
  CHECK(phi(BeyondPi::linear, -0.85) == close_to(std::cos(std::acos(-0.85) + 0.5) - 0.1));
  CHECK(phi(BeyondPi::easy, -0.2) == -0.2);
  CHECK(phi(BeyondPi::psi, -0.95) == close_to(-std::cos(std::acos(-0.95) + 0.5) - 2 - 0.1));
}

TEST_CASE("AdaFace's quality and CurricularFace's hard negatives are as published") {
  const Values norms{20, 4};  // mean and deviation
  const auto quality = [&](double norm) { return row_parameter(adaface(), norms.data(), 1 / norm); };
  CHECK(quality(22) == close_to(0.333 * 2 / 4.001));
  CHECK(quality(60) == 1);
  CHECK(quality(0.5) == -1);
  const double k = quality(22);
  CHECK(margin_target(adaface(), 0.3, k).phi == close_to(std::cos(std::acos(0.3) - 0.4 * k) - 0.4 * (1 + k)));
  const double t = 0.3;
  const double threshold = row_parameter(curricularface(), &t, 0.6);
  CHECK(threshold == close_to(0.6 * std::cos(0.5) - 0.8 * std::sin(0.5)));
  const NegativeMap<double> map = negative_map(curricularface(), &t, threshold);
  CHECK(map.value(threshold - 0.01) == threshold - 0.01);
  CHECK(map.value(0.5) == close_to(0.5 * (0.3 + 0.5)));
  CHECK(map.slope(0.5) == close_to(0.3 + 2 * 0.5));
}

TEST_CASE("combined margins have the gradients of their losses, on both sides of each boundary") {
  for (const MarginConfig& margin :
       {MarginConfig{.scale = 8}, MarginConfig{.scale = 8, .combined = {.m2 = 0.5}},
        MarginConfig{.scale = 8, .combined = {.m3 = 0.35}}, MarginConfig{.scale = 8, .combined = {.m1 = 1.35}},
        MarginConfig{.scale = 8, .combined = {.m1 = 0.9, .m2 = 0.4, .m3 = 0.15}}}) {
    CAPTURE(margin.combined.m1);
    CAPTURE(margin.combined.m2);
    CAPTURE(margin.combined.m3);
    // An angle of pi, where there is one, and places near the ends.
    const double turn = std::max(std::cos((pi - margin.combined.m2) / margin.combined.m1), -0.95);
    check_around(four_rows(margin), {turn, -0.99, 0.99, turn});
  }
  check_around(four_rows({.scale = 8, .combined = {.m2 = 0.5, .m3 = 0.1, .beyond_pi = BeyondPi::linear}}),
               {-std::cos(0.5), -0.99});
  check_around(four_rows({.scale = 8, .combined = {.m2 = 0.5, .m3 = 0.1, .beyond_pi = BeyondPi::easy}}), {0, -0.9});
  check_around(four_rows({.scale = 8, .combined = {.m1 = 1.35, .m2 = 0.3, .beyond_pi = BeyondPi::psi}}),
               {std::cos((pi - 0.3) / 1.35), -0.99});
}

TEST_CASE("SphereFace with an integer m has the gradient of its loss in all pieces of psi") {
  for (const double m : {2.0, 3.0, 4.0}) {
    CAPTURE(m);
    check_around(four_rows({.scale = 8, .combined = {.m1 = m, .beyond_pi = BeyondPi::psi}}), turns_of(m));
  }
}

TEST_CASE("L-Softmax has the gradient of its loss by directions and lengths, in all pieces of psi") {
  for (const std::int64_t m : {1, 2, 3, 4}) {
    CAPTURE(m);
    Problem problem = four_rows(l_softmax(m));
    problem.config.normalize = false;
    check_gradients(problem);
    check_around(problem, turns_of(static_cast<double>(m)));
  }
  // With m = 1 it is the plain linear softmax.
  Problem problem = random_problem(5, 7, 4, 12);
  problem.config.normalize = false;
  problem.config.margin = l_softmax(1);
  const Answer with = solve(problem, 2);
  problem.config.margin = {.scale = 1};
  const Answer plain = solve(problem, 2);
  CHECK(with.loss == close_to(plain.loss).epsilon(1e-12));
  CHECK(difference(with.weight_gradient, plain.weight_gradient) < 1e-12);
}

TEST_CASE("a filtered negative's logit is 0 and has no gradient, one below the filter its own") {
  Problem problem = four_rows({.scale = 8, .combined = {.m2 = 0.5, .filter = 0.3}});
  for (const double cosine : {0.298, 0.302}) {
    place(problem, 0, 6, cosine);
    check_gradients(problem);
  }
  // Class 6 is filtered in row 0: turned a little further it makes the same loss there.
  Problem one = problem;
  one.labels = {0};
  one.embeddings.resize(6);
  place(one, 0, 6, 0.5);
  const double loss = solve(one, 1).loss;
  place(one, 0, 6, 0.9);
  CHECK(solve(one, 1).loss == close_to(loss).epsilon(1e-14));
  place(one, 0, 6, 0.25);
  CHECK(solve(one, 1).loss > loss + 1e-3);
}

TEST_CASE("AdaFace has the gradient of its loss with the norm held, where the angle is clipped too") {
  Problem problem = four_rows(adaface());
  problem.running = {2.5, 1};
  check_gradients(problem);
  problem.running = {0.1, 0.1};  // all have quality 1
  check_around(problem, {std::cos(0.401), -0.9});
  problem.running = {100, 1};  // all have quality -1
  check_around(problem, {std::cos(pi - 0.401), 0.9});
}

TEST_CASE("CurricularFace has the gradient of its loss for easy and for hard negatives") {
  Problem problem = four_rows(curricularface());
  for (const double t : {0.0, 0.4, -0.2}) {
    problem.running = {t};
    check_gradients(problem);
    place(problem, 0, 0, 0.6);
    const double threshold = 0.6 * std::cos(0.5) - 0.8 * std::sin(0.5);
    for (const double cosine : {threshold - 0.003, threshold + 0.003}) {
      place(problem, 0, 6, cosine);
      check_gradients(problem);
    }
    check_around(problem, {-std::cos(0.5), 0.9});
  }
}

TEST_CASE("AdaFace learns mean and deviation of the batch's norms, whatever its ranks and micro-batches") {
  Problem problem = four_rows(adaface());
  problem.config.margin.adaface.momentum = 0.25;
  Values norms;
  for (std::int64_t row = 0; row < 4; ++row) {
    const double* const x = problem.embeddings.data() + row * 6;
    norms.push_back(std::sqrt(dot(x, x, 6)));
  }
  const double mean = std::accumulate(norms.begin(), norms.end(), 0.0) / 4;
  double square = 0;
  for (const double norm : norms) square += (norm - mean) * (norm - mean) / 3;
  const Values expected{0.75 * 20 + 0.25 * mean, 0.75 * 100 + 0.25 * std::sqrt(square)};
  for (const HeadParallel parallel : {HeadParallel::sharded, HeadParallel::replicated})
    for (const int ranks : {1, 2, 3})
      for (const std::int64_t micro_batches : {1, 2}) {
        problem.config.parallel = parallel;
        CHECK(difference(test::running_after_step(problem, Mesh(ranks), micro_batches), expected) < 1e-12);
      }
}

TEST_CASE("CurricularFace learns the mean of the targets' cosines, wherever the logits are") {
  Problem problem = four_rows(curricularface());
  problem.config.margin.curricularface.momentum = 0.25;
  problem.running = {0.5};
  double mean = 0;
  for (std::int64_t row = 0; row < 4; ++row) mean += cosine_of(problem, row, row) / 4;
  const Values expected{0.75 * 0.5 + 0.25 * mean};
  for (const Logits logits : {Logits::gathered, Logits::transposed, Logits::sharded, Logits::fused})
    for (const int ranks : {1, 2, 3}) {
      problem.config.logits = logits;
      CHECK(difference(test::running_after_step(problem, Mesh(ranks), 2), expected) < 1e-12);
    }
  problem.config.parallel = HeadParallel::replicated;
  CHECK(difference(test::running_after_step(problem, Mesh(2), 1), expected) < 1e-12);
}

TEST_CASE("a class of several centres has the cosine of its nearest, and only that one a gradient") {
  Problem problem = random_problem(5, 4, 6, 83);
  problem.config.sub_centres = 3;
  problem.config.margin = {.scale = 8, .combined = {.m2 = 0.4}};
  problem.weights = test::normal_values(12 * 6, 84);
  const Answer answer = solve(problem, 2);
  CHECK(difference(answer.embedding_gradient, numeric_gradient(problem, &Problem::embeddings, small_step)) < 1e-7);
  CHECK(difference(answer.weight_gradient, numeric_gradient(problem, &Problem::weights, small_step)) < 1e-7);

  // A head of the nearest centres alone has the same loss.
  Problem one = problem;
  one.labels = {2};
  one.embeddings.resize(6);
  Problem nearest = one;
  nearest.config.sub_centres = 1;
  nearest.weights.clear();
  for (std::int64_t j = 0; j < 4; ++j) {
    std::int64_t best = 3 * j;
    for (std::int64_t i = 3 * j; i < 3 * j + 3; ++i)
      if (cosine_of(one, 0, i) > cosine_of(one, 0, best)) best = i;
    const Values row = test::part(one.weights, 6, {best, 1});
    nearest.weights.insert(nearest.weights.end(), row.begin(), row.end());
  }
  CHECK(solve(one, 2).loss == close_to(solve(nearest, 1).loss).epsilon(1e-12));
}

TEST_CASE("a plain softmax with biases has the gradients of its loss, by the biases too") {
  Problem problem = random_problem(5, 7, 4, 12);
  problem.config.normalize = false;
  problem.config.bias = true;
  problem.config.margin.scale = 2;
  problem.biases = test::normal_values(7, 13);
  for (const Logits logits : {Logits::gathered, Logits::transposed, Logits::sharded, Logits::fused})
    for (const int ranks : {1, 3}) {
      problem.config.logits = logits;
      const Answer answer = solve(problem, ranks, 2);
      CHECK(difference(answer.embedding_gradient, numeric_gradient(problem, &Problem::embeddings)) < 1e-7);
      CHECK(difference(answer.weight_gradient, numeric_gradient(problem, &Problem::weights)) < 1e-7);
      CHECK(difference(answer.bias_gradient, numeric_gradient(problem, &Problem::biases)) < 1e-7);
    }
  problem.config.parallel = HeadParallel::replicated;
  for (const Logits logits : {Logits::sharded, Logits::fused}) {
    problem.config.logits = logits;
    const Answer answer = solve(problem, 1, 2);
    CHECK(difference(answer.weight_gradient, numeric_gradient(problem, &Problem::weights)) < 1e-7);
    CHECK(difference(answer.bias_gradient, numeric_gradient(problem, &Problem::biases)) < 1e-7);
  }
}

TEST_CASE("with loss_reduction reduce_scatter each rank gets its own samples' losses, and the same loss is reported") {
  Problem problem = random_problem(7, 5, 4, 14);
  problem.config.margin.combined.m2 = 0.4;
  Values expected;
  for (std::int64_t row = 0; row < 7; ++row) {
    Problem one = problem;
    one.embeddings = test::part(problem.embeddings, 4, {row, 1});
    one.labels = {problem.labels[static_cast<std::size_t>(row)]};
    expected.push_back(solve(one, 1).loss);
  }
  const Answer serial = solve(problem, 1);
  for (const Logits logits : {Logits::gathered, Logits::transposed, Logits::sharded, Logits::fused})
    for (const int ranks : {1, 2, 3}) {
      problem.config.logits = logits;
      problem.config.loss_reduction = LossReduction::reduce_scatter;
      const Answer answer = solve(problem, ranks, 2);
      CHECK(difference(answer.losses, expected) < 1e-12);
      CHECK(answer.loss == close_to(serial.loss).epsilon(1e-12));
      CHECK(difference(answer.weight_gradient, serial.weight_gradient) < 1e-12);
    }
}

TEST_CASE("margins that contradict a head's other settings are refused") {
  const auto said = [](const HeadConfig& config) {
    return message_of<InputError>([&] { check(config, {}, DType::f32); });
  };
  CHECK(said({.classes = 9, .margin = {.combined = {.m2 = 0.5}}, .normalize = false}) ==
        "head: margins act on angles: with \"normalize\": false expected m1 = 1, m2 = 0, m3 = 0 and no filter");
  CHECK(said({.classes = 9, .margin = {.combined = {.filter = 0.5}}, .normalize = false}) ==
        "head: margins act on angles: with \"normalize\": false expected m1 = 1, m2 = 0, m3 = 0 and no filter");
  CHECK(said({.classes = 9, .margin = adaface(), .normalize = false}) ==
        "head: margins act on angles: with \"normalize\": false expected type combined or l_softmax");
  CHECK(said({.classes = 9, .margin = l_softmax(2)}) ==
        "head: l_softmax has unnormalised weights: expected \"normalize\": false");
  CHECK(said({.classes = 9, .margin = l_softmax(2), .normalize = false}) == "no error");
  CHECK(said({.classes = 9, .margin = {.combined = {.m1 = 1.5, .beyond_pi = BeyondPi::linear}}}) ==
        "head.margin.beyond_pi: the line continues ArcFace's margin: expected m1 = 1, got 1.5");
  CHECK(said({.classes = 9, .bias = true}) == "head.bias: cosine logits take no bias: expected normalize = false");
  CHECK(said({.classes = 9, .margin = l_softmax(2), .normalize = false, .bias = true}) ==
        "head.bias: L-Softmax has no biases: expected false");
  CHECK(said({.classes = 9, .normalize = false, .bias = true, .sample = {.rate = 0.5}}) == "no error");
  CHECK(said({.classes = 9, .parallel = HeadParallel::replicated, .normalize = false, .bias = true}) == "no error");
  CHECK(said({.classes = 9, .normalize = false, .sub_centres = 2}) ==
        "head.sub_centres: expected cosines (normalize = true) and no stash");
  CHECK(said({.classes = 9, .logits = Logits::fused, .stash = true, .sub_centres = 2}) ==
        "head.sub_centres: expected cosines (normalize = true) and no stash");
  CHECK(said({.classes = 9, .parallel = HeadParallel::replicated, .loss_reduction = LossReduction::reduce_scatter}) ==
        "head.loss_reduction: ranks of a replicated head see their own samples only: expected all_reduce");
}

}  // namespace heddle::test
