// The large-class head against its formulas, on 1, 2 and 3 uneven shards.
#include <array>
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "parallel/world.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/head/head_problem.h"
#include "tests/support/ranks.h"

namespace heddle::test {

namespace {

using test::Answer;
using test::difference;
using test::numeric_gradient;
using test::part;
using test::Problem;
using test::random_problem;
using test::solve;
using test::Values;

constexpr std::array<Logits, 4> every_logits{Logits::gathered, Logits::transposed, Logits::sharded, Logits::fused};

/// Embeddings and weights whose cosines are Paddle's example: row j of the weights completes its two given cosines to a
/// unit vector along an axis of its own.
Problem golden_problem() {
  const Values logits{.85204151, -.55557678, .04994566, .71986042, -.20198586, -.35270476, -.55182702, .09749021};
  Problem problem{.config = {.classes = 4, .logits = Logits::sharded, .margin = {.scale = 64, .combined = {.m2 = 0.5}}},
                  .dimension = 6,
                  .embeddings = {1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},
                  .weights = Values(24, 0.0),
                  .labels = {2, 3}};
  for (std::size_t j = 0; j < 4; ++j) {
    double* row = problem.weights.data() + j * 6;
    row[0] = logits[j];
    row[1] = logits[4 + j];
    row[2 + j] = std::sqrt(1 - row[0] * row[0] - row[1] * row[1]);
  }
  return problem;
}

}  // namespace

TEST_CASE("ArcFace losses are Paddle's golden ones over 1, 2 and 3 shards, wherever the logits are") {
  Problem problem = golden_problem();
  for (const Logits logits : every_logits)
    for (const int ranks : {1, 2, 3}) {
      problem.config.logits = logits;
      CHECK(solve(problem, ranks).loss == close_to((82.37059586 + 12.13448420) / 2).epsilon(1e-8));
      CHECK(solve(problem, ranks, 1, DType::f32).loss == close_to((82.37059586 + 12.13448420) / 2).epsilon(1e-6));
    }
}

TEST_CASE("each row's loss is the golden one") {
  const Problem both = golden_problem();
  const std::vector<double> expected{82.37059586, 12.13448420};
  for (std::size_t i = 0; i < 2; ++i) {
    Problem one = both;
    one.labels = {both.labels[i]};
    one.embeddings = part(both.embeddings, 6, {static_cast<std::int64_t>(i), 1});
    CHECK(solve(one, 1).loss == doctest::Approx(expected[i]).epsilon(1e-8).scale(1));
  }
}

TEST_CASE("without normalisation the head is a plain linear softmax") {
  Problem problem = random_problem(5, 7, 4, 12);
  problem.config.normalize = false;
  problem.config.margin.scale = 1;
  const Answer answer = solve(problem, 3);
  CHECK(difference(answer.embedding_gradient, numeric_gradient(problem, &Problem::embeddings)) < 1e-7);
  CHECK(difference(answer.weight_gradient, numeric_gradient(problem, &Problem::weights)) < 1e-7);
}

TEST_CASE("straight_through differentiates the target as if its logit were scale * cos") {
  Problem problem = random_problem(4, 6, 5, 13);
  problem.config.margin = {.scale = 8,
                           .combined = {.m1 = 1, .m2 = 0.5, .m3 = 0, .gradient = MarginGradient::straight_through}};
  const Answer answer = solve(problem, 2);
  // By hand: G = softmax(z) - onehot, times scale / B; then back through both normalisations.
  const std::int64_t d = problem.dimension;
  const auto unit = [d](const Values& rows, std::int64_t i) {
    Values row = part(rows, d, {i, 1});
    const double norm = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
    for (double& x : row) x /= norm;
    return std::pair(row, norm);
  };
  Values expected;
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto [x, norm] = unit(problem.embeddings, i);
    Values cosines;
    Values exponentials;
    for (std::int64_t j = 0; j < 6; ++j) {
      const Values w = unit(problem.weights, j).first;
      const double c = std::inner_product(x.begin(), x.end(), w.begin(), 0.0);
      cosines.push_back(c);
      exponentials.push_back(
          std::exp(8 * (j == problem.labels[static_cast<std::size_t>(i)] ? std::cos(std::acos(c) + 0.5) : c)));
    }
    const double total = std::accumulate(exponentials.begin(), exponentials.end(), 0.0);
    Values gradient(static_cast<std::size_t>(d), 0.0);
    for (std::int64_t j = 0; j < 6; ++j) {
      const Values w = unit(problem.weights, j).first;
      const double g = (exponentials[static_cast<std::size_t>(j)] / total -
                        (j == problem.labels[static_cast<std::size_t>(i)] ? 1 : 0)) *
                       8 / 4;
      for (std::size_t t = 0; t < gradient.size(); ++t)
        gradient[t] += g * (w[t] - cosines[static_cast<std::size_t>(j)] * x[t]) / norm;
    }
    expected.insert(expected.end(), gradient.begin(), gradient.end());
  }
  CHECK(difference(answer.embedding_gradient, expected) < 1e-12);
}

TEST_CASE("shards, micro-batches and the way of the logits change neither loss nor gradients") {
  struct Size {
    std::int64_t batch, classes;
  };
  // Uneven shards, ranks without a class, ranks without a sample.
  for (const Size size : {Size{8, 11}, Size{7, 5000}, Size{5, 3}, Size{2, 9}}) {
    CAPTURE(size.batch);
    CAPTURE(size.classes);
    Problem problem = random_problem(size.batch, size.classes, 6, 21);
    problem.config.margin = {.scale = 30, .combined = {.m1 = 1, .m2 = 0.5, .m3 = 0.1}};
    const Answer serial = solve(problem, 1);
    for (const Logits logits : every_logits)
      for (const int ranks : {1, 2, 3, 4})
        for (const std::int64_t micro_batches : {1, 2}) {
          problem.config.logits = logits;
          const Answer answer = solve(problem, ranks, micro_batches);
          CHECK(answer.loss == close_to(serial.loss).epsilon(1e-12));
          CHECK(difference(answer.embedding_gradient, serial.embedding_gradient) < 1e-12);
          CHECK(difference(answer.weight_gradient, serial.weight_gradient) < 1e-12);
        }
  }
}

TEST_CASE("a weight's gradient is orthogonal to it, an embedding's to the embedding") {
  const Problem problem = random_problem(6, 9, 5, 31);
  const Answer answer = solve(problem, 2);
  const auto max_product = [&](const Values& gradients, const Values& values) {
    double largest = 0;
    for (std::size_t i = 0; i < values.size(); i += 5)
      largest =
          std::max(largest, std::abs(std::inner_product(values.begin() + static_cast<std::ptrdiff_t>(i),
                                                        values.begin() + static_cast<std::ptrdiff_t>(i + 5),
                                                        gradients.begin() + static_cast<std::ptrdiff_t>(i), 0.0)));
    return largest;
  };
  CHECK(max_product(answer.embedding_gradient, problem.embeddings) < 1e-12);
  CHECK(max_product(answer.weight_gradient, problem.weights) < 1e-12);
}

TEST_CASE("a label outside the classes is an error that names the sample") {
  Problem problem = random_problem(5, 7, 4, 41);
  problem.labels[3] = 7;
  CHECK_THROWS_WITH_AS(solve(problem, 2), "head: sample 3 of the batch has label 7, expected one in [0, 7)",
                       InputError);
  problem.labels[3] = -1;
  CHECK_THROWS_WITH_AS(solve(problem, 1), "head: sample 3 of the batch has label -1, expected one in [0, 7)",
                       InputError);
}

TEST_CASE("logits stay sharded: only gathering makes rank 0 hold more than the others") {
  for (const Logits logits : {Logits::gathered, Logits::sharded}) {
    std::vector<std::int64_t> peaks(4);
    run_ranks(test::ranks(4), [&](Rank& rank) {
      Construction construction{rank.device, rank.key, DType::f32};
      Head head({.classes = 4000, .logits = logits, .margin = {}}, {}, 8, rank, construction);
      const std::vector<std::int64_t> all(64, 5);
      head.begin_step(0, all);
      const std::vector<std::int64_t> labels(16, 5);
      rank.device.meter().reset_peak();
      (void)head.forward_backward({.embedding = Tensor::full(rank.device, {16, 8}, DType::f32, 1),
                                   .labels = labels,
                                   .samples = {{0, 16}, {16, 16}, {32, 16}, {48, 16}},
                                   .global_batch = 64});
      peaks[static_cast<std::size_t>(rank.index)] = rank.device.meter().peak().total();
      rank.world.barrier().wait();
    });
    const std::int64_t all_logits = 64 * 4000 * 4;
    if (logits == Logits::gathered) {
      CHECK(peaks[0] > peaks[1] + all_logits);
      CHECK(peaks[0] < peaks[1] + 2 * all_logits);
    } else {
      CHECK(peaks[0] == peaks[1]);
    }
  }
}

}  // namespace heddle::test
