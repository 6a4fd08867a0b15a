// The large-class head against its formulas, on 1, 2 and 3 uneven shards.
#include "layers/head/head.h"

#include <array>
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "parallel/world.h"
#include "tests/support/devices.h"

namespace heddle {

namespace {

using Values = std::vector<double>;

constexpr std::array<Logits, 4> every_way{Logits::gathered, Logits::transposed, Logits::sharded, Logits::fused};

struct Problem {
  HeadConfig config;
  std::int64_t dimension = 0;
  Values embeddings;  // [B, d]
  Values weights;     // [C, d]
  std::vector<std::int64_t> labels;

  std::int64_t batch() const { return static_cast<std::int64_t>(labels.size()); }
};

struct Answer {
  double loss = 0;
  Values embedding_gradient;
  Values weight_gradient;
};

WorldOptions world(int ranks) {
  WorldOptions options{.mesh = Mesh(ranks)};
  options.threads = 1;
  return options;
}

Values part(const Values& all, std::int64_t width, const ShardRange& rows) {
  return {all.begin() + rows.begin * width, all.begin() + rows.end() * width};
}

void put(const Tensor& rows, std::int64_t first_row, Values& all) {
  const Values values = rows.to_doubles();
  std::copy(values.begin(), values.end(), all.begin() + first_row * rows.shape().back());
}

/// The head over `ranks` ranks and `micro_batches` micro-batches.
Answer solve(const Problem& problem, int ranks, std::int64_t micro_batches = 1, DType dtype = DType::f64) {
  Answer answer;
  answer.embedding_gradient.resize(problem.embeddings.size());
  answer.weight_gradient.resize(problem.weights.size());
  const std::int64_t d = problem.dimension;
  run_ranks(world(ranks), [&](Rank& rank) {
    Construction construction{rank.device, rank.key, dtype};
    Head head(problem.config, {}, d, rank, construction);
    head.table().weight.copy_from(
        test::tensor(rank.device, {head.classes().size, d}, part(problem.weights, d, head.classes()), dtype));
    head.begin_step(0, problem.labels);
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      HeadInput input;
      for (int r = 0; r < ranks; ++r)
        input.rows.push_back(shard(problem.batch(), micro_batches * ranks, i * ranks + r).size);
      const ShardRange mine = shard(problem.batch(), micro_batches * ranks, i * ranks + rank.index);
      input.embedding = test::tensor(rank.device, {mine.size, d}, part(problem.embeddings, d, mine), dtype);
      input.labels =
          std::span(problem.labels).subspan(static_cast<std::size_t>(mine.begin), static_cast<std::size_t>(mine.size));
      input.first_sample = mine.begin;
      input.global_batch = problem.batch();
      const HeadOutput output = head.forward_backward(input);
      put(output.embedding_gradient, mine.begin, answer.embedding_gradient);
      if (rank.index == 0) answer.loss += output.loss_sum.item();
    }
    put(head.weight_gradient(), head.classes().begin, answer.weight_gradient);
  });
  return answer;
}

Problem random_problem(std::int64_t batch, std::int64_t classes, std::int64_t dimension, std::uint64_t seed) {
  Problem problem{.config = {.classes = classes, .logits = Logits::sharded, .margin = {.scale = 8}},
                  .dimension = dimension,
                  .embeddings = test::normal_values(batch * dimension, seed),
                  .weights = test::normal_values(classes * dimension, seed + 1),
                  .labels = {}};
  RandomStream stream({seed}, Purpose::test, 1, 0);
  for (std::int64_t i = 0; i < batch; ++i)
    problem.labels.push_back(static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(classes))));
  return problem;
}

double largest_difference(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    size = std::max(size, std::abs(b[i]));
  }
  return difference / size;
}

/// Central differences of fourth order.
Values numeric_gradient(Problem problem, Values Problem::*values) {
  constexpr double h = 1e-3;
  Values gradient;
  for (double& x : problem.*values) {
    const double at = x;
    const auto loss = [&](double shift) {
      x = at + shift;
      return solve(problem, 1).loss;
    };
    gradient.push_back((8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h));
    x = at;
  }
  return gradient;
}

/// Embeddings and weights whose cosines are Paddle's example: row j of the weights completes its two given cosines to a
/// unit vector along an axis of its own.
Problem golden_problem() {
  const Values logits{.85204151, -.55557678, .04994566, .71986042, -.20198586, -.35270476, -.55182702, .09749021};
  Problem problem{.config = {.classes = 4, .logits = Logits::sharded, .margin = {.m2 = 0.5, .scale = 64}},
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
  for (const Logits logits : every_way)
    for (const int ranks : {1, 2, 3}) {
      problem.config.logits = logits;
      CHECK(solve(problem, ranks).loss == doctest::Approx((82.37059586 + 12.13448420) / 2).epsilon(1e-8));
      CHECK(solve(problem, ranks, 1, DType::f32).loss ==
            doctest::Approx((82.37059586 + 12.13448420) / 2).epsilon(1e-6));
    }
}

TEST_CASE("each row's loss is the golden one") {
  const Problem both = golden_problem();
  const std::vector<double> expected{82.37059586, 12.13448420};
  for (std::size_t i = 0; i < 2; ++i) {
    Problem one = both;
    one.labels = {both.labels[i]};
    one.embeddings = part(both.embeddings, 6, {static_cast<std::int64_t>(i), 1});
    CHECK(solve(one, 1).loss == doctest::Approx(expected[i]).epsilon(1e-8));
  }
}

TEST_CASE("the head's gradients are those of its loss, for every margin") {
  const std::vector<MarginConfig> margins{{.m1 = 1, .m2 = 0, .m3 = 0},
                                          {.m1 = 1, .m2 = 0.5, .m3 = 0},
                                          {.m1 = 1, .m2 = 0, .m3 = 0.35},
                                          {.m1 = 1.35, .m2 = 0, .m3 = 0},
                                          {.m1 = 0.9, .m2 = 0.4, .m3 = 0.15}};
  for (MarginConfig margin : margins) {
    CAPTURE(margin.m1);
    CAPTURE(margin.m2);
    CAPTURE(margin.m3);
    Problem problem = random_problem(5, 7, 4, 11);
    margin.scale = 8;
    problem.config.margin = margin;
    const Answer answer = solve(problem, 2);
    CHECK(largest_difference(answer.embedding_gradient, numeric_gradient(problem, &Problem::embeddings)) < 1e-7);
    CHECK(largest_difference(answer.weight_gradient, numeric_gradient(problem, &Problem::weights)) < 1e-7);
  }
}

TEST_CASE("without normalisation the head is a plain linear softmax") {
  Problem problem = random_problem(5, 7, 4, 12);
  problem.config.normalize = false;
  problem.config.margin.scale = 1;
  const Answer answer = solve(problem, 3);
  CHECK(largest_difference(answer.embedding_gradient, numeric_gradient(problem, &Problem::embeddings)) < 1e-7);
  CHECK(largest_difference(answer.weight_gradient, numeric_gradient(problem, &Problem::weights)) < 1e-7);
}

TEST_CASE("straight_through differentiates the target as if its logit were scale * cos") {
  Problem problem = random_problem(4, 6, 5, 13);
  problem.config.margin = {.m1 = 1, .m2 = 0.5, .m3 = 0, .scale = 8, .gradient = MarginGradient::straight_through};
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
  CHECK(largest_difference(answer.embedding_gradient, expected) < 1e-12);
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
    problem.config.margin = {.m1 = 1, .m2 = 0.5, .m3 = 0.1, .scale = 30};
    const Answer serial = solve(problem, 1);
    for (const Logits logits : every_way)
      for (const int ranks : {1, 2, 3, 4})
        for (const std::int64_t micro_batches : {1, 2}) {
          problem.config.logits = logits;
          const Answer answer = solve(problem, ranks, micro_batches);
          CHECK(answer.loss == doctest::Approx(serial.loss).epsilon(1e-12));
          CHECK(largest_difference(answer.embedding_gradient, serial.embedding_gradient) < 1e-12);
          CHECK(largest_difference(answer.weight_gradient, serial.weight_gradient) < 1e-12);
        }
  }
}

TEST_CASE("a weight's gradient is orthogonal to it, an embedding's to the embedding") {
  const Problem problem = random_problem(6, 9, 5, 31);
  const Answer answer = solve(problem, 2);
  const auto largest_product = [&](const Values& gradients, const Values& values) {
    double largest = 0;
    for (std::size_t i = 0; i < values.size(); i += 5)
      largest =
          std::max(largest, std::abs(std::inner_product(values.begin() + static_cast<std::ptrdiff_t>(i),
                                                        values.begin() + static_cast<std::ptrdiff_t>(i + 5),
                                                        gradients.begin() + static_cast<std::ptrdiff_t>(i), 0.0)));
    return largest;
  };
  CHECK(largest_product(answer.embedding_gradient, problem.embeddings) < 1e-12);
  CHECK(largest_product(answer.weight_gradient, problem.weights) < 1e-12);
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

TEST_CASE("margins on logits that are not cosines are refused") {
  Problem problem = random_problem(2, 3, 4, 42);
  problem.config.normalize = false;
  problem.config.margin.m2 = 0.5;
  CHECK_THROWS_WITH_AS(solve(problem, 1),
                       "head: margins act on angles: with \"normalize\": false expected m1 = 1, m2 = 0, m3 = 0",
                       InputError);
}

TEST_CASE("logits stay sharded: only gathering makes rank 0 hold more than the others") {
  for (const Logits logits : {Logits::gathered, Logits::sharded}) {
    std::vector<std::int64_t> peaks(4);
    run_ranks(world(4), [&](Rank& rank) {
      Construction construction{rank.device, rank.key, DType::f32};
      Head head({.classes = 4000, .logits = logits, .margin = {}}, {}, 8, rank, construction);
      const std::vector<std::int64_t> all(64, 5);
      head.begin_step(0, all);
      const std::vector<std::int64_t> labels(16, 5);
      rank.device.meter().reset_peak();
      (void)head.forward_backward({.embedding = Tensor::full(rank.device, {16, 8}, DType::f32, 1),
                                   .labels = labels,
                                   .rows = {16, 16, 16, 16},
                                   .first_sample = 0,
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

}  // namespace heddle
