// Several heads on one batch of embeddings, against the same heads on the samples of each set alone.
#include "layers/head/heads.h"

#include <cmath>

#include <doctest/doctest.h>

#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"
#include "tests/support/ranks.h"

namespace heddle::test::heads_test {

namespace {

constexpr std::int64_t batch = 12;
constexpr std::int64_t dimension = 5;

/// Two sets with two and one of every three samples.
const BatchShares& shares() {
  static const BatchShares value({2, 1});
  return value;
}

std::vector<HeadOfSet> two_heads() {
  std::vector<HeadOfSet> heads(2);
  heads[0].name = "large";
  heads[0].config.classes = 9;
  heads[0].config.margin = {.scale = 8, .combined = {.m2 = 0.3}};
  heads[1].name = "small";
  heads[1].config.classes = 4;
  heads[1].config.logits = Logits::fused;
  heads[1].config.margin = {.scale = 6, .combined = {.m3 = 0.1}};
  heads[1].config.loss_weight = 0.25;
  return heads;
}

std::vector<std::int64_t> labels() {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < batch; ++i)
    all.push_back((5 * i + 3) % (shares().set_of(i) == 0 ? std::int64_t{9} : std::int64_t{4}));
  return all;
}

/// The rows of a set, in their order.
std::vector<double> rows_of_set(const std::vector<double>& all, std::size_t set) {
  std::vector<double> rows;
  for (const std::int64_t place : shares().places(set, {0, batch}))
    rows.insert(rows.end(), all.begin() + place * dimension, all.begin() + (place + 1) * dimension);
  return rows;
}

/// What a step gives: the loss, the gradient of the embeddings, and the weights after it.
struct Step {
  double loss = 0;
  std::vector<double> gradient;
  std::vector<double> weights;
};

constexpr HeadUpdate update{.learning_rate = 0.5};

/// A head alone, on the samples of its set, with weights of their losses.
Step alone(const HeadOfSet& head, std::size_t set, std::uint32_t stream, const std::vector<double>& weights = {}) {
  Step step;
  run_ranks(test::ranks(1), [&](Rank& rank) {
    Construction construction{rank.device, rank.key, DType::f64};
    construction.next_stream = stream;
    Head own(head.config, {.momentum = 0}, dimension, rank, construction);
    std::vector<std::int64_t> of_set;
    for (const std::int64_t place : shares().places(set, {0, batch}))
      of_set.push_back(labels()[static_cast<std::size_t>(place)]);
    const auto count = static_cast<std::int64_t>(of_set.size());
    own.begin_step(0, of_set);
    const std::vector<double> embeddings = rows_of_set(test::normal_values(batch * dimension, 7), set);
    const HeadOutput output =
        own.forward_backward({.embedding = test::tensor(rank.device, {count, dimension}, embeddings),
                              .labels = of_set,
                              .samples = {{0, count}},
                              .global_batch = count,
                              .weights = weights});
    step = {output.loss_sum.item(), output.embedding_gradient.to_doubles(), {}};
    own.update(update);
    step.weights = own.table().weight.to_doubles();
  });
  return step;
}

}  // namespace

TEST_CASE("each of several heads has the loss and gradients of its samples alone, times its weight in their sum") {
  std::vector<HeadOfSet> heads = two_heads();
  run_ranks(test::ranks(1), [&](Rank& rank) {
    Construction construction{rank.device, rank.key, DType::f64};
    Heads all(heads, shares(), {.momentum = 0}, dimension, rank, construction);
    all.begin_step(0, labels());
    const std::vector<std::int64_t> given = labels();
    const HeadsOutput output = all.forward_backward(
        {.embedding = test::tensor(rank.device, {batch, dimension}, test::normal_values(batch * dimension, 7)),
         .labels = given,
         .samples =
             [](int /*rank*/) {
               return IndexRange{0, batch};
             },
         .global_batch = batch});
    REQUIRE(output.loss_sums.size() == 2);
    for (std::size_t set = 0; set < 2; ++set) {
      HeadOfSet unweighted = heads[set];
      unweighted.config.loss_weight = 1;
      const Step expected = alone(unweighted, set, static_cast<std::uint32_t>(set));
      CHECK(output.loss_sums[set].item() == close_to(expected.loss).epsilon(1e-14));
      const std::vector<double> gradient = rows_of_set(output.embedding_gradient.to_doubles(), set);
      REQUIRE(gradient.size() == expected.gradient.size());
      for (std::size_t i = 0; i < gradient.size(); ++i)
        CHECK(gradient[i] ==
              doctest::Approx(heads[set].config.loss_weight * expected.gradient[i]).epsilon(1e-12).scale(1e-3));
      const Step weighted = alone(heads[set], set, static_cast<std::uint32_t>(set));
      all[set].update(update);
      CHECK(all[set].table().weight.to_doubles() == weighted.weights);
      CHECK(weighted.weights != (set == 0 ? std::vector<double>() : expected.weights));
    }
  });
}

TEST_CASE("weights of samples multiply the losses of their own head, also if those of the other head have none") {
  const std::vector<HeadOfSet> heads = two_heads();
  const std::vector<double> weights{0.5, 0, 2, 1.5};  // of the second set's samples
  run_ranks(test::ranks(1), [&](Rank& rank) {
    Construction construction{rank.device, rank.key, DType::f64};
    Heads all(heads, shares(), {.momentum = 0}, dimension, rank, construction);
    all.begin_step(0, labels());
    const std::vector<std::int64_t> given = labels();
    const HeadsOutput output = all.forward_backward(
        {.embedding = test::tensor(rank.device, {batch, dimension}, test::normal_values(batch * dimension, 7)),
         .labels = given,
         .samples =
             [](int /*rank*/) {
               return IndexRange{0, batch};
             },
         .global_batch = batch,
         .weights = [&](std::size_t head, int /*rank*/) { return head == 1 ? weights : std::vector<double>(); }});
    for (std::size_t set = 0; set < 2; ++set) {
      const auto stream = static_cast<std::uint32_t>(set);
      const Step expected = alone(heads[set], set, stream, set == 1 ? weights : std::vector<double>());
      CHECK(output.loss_sums[set].item() == close_to(expected.loss).epsilon(1e-14));
      CHECK(rows_of_set(output.embedding_gradient.to_doubles(), set) == expected.gradient);
      all[set].update(update);
      CHECK(all[set].table().weight.to_doubles() == expected.weights);
    }
    CHECK(output.loss_sums[1].item() != close_to(alone(heads[1], 1, 1).loss).epsilon(1e-3));
  });
}

TEST_CASE("the state of several heads is named by their data sets, that of a single one is not") {
  run_ranks(test::ranks(1), [&](Rank& rank) {
    const auto names = [&](std::vector<HeadOfSet> heads, const BatchShares& of_batch) {
      Construction construction{rank.device, rank.key, DType::f32};
      Heads all(std::move(heads), of_batch, {.momentum = 0}, dimension, rank, construction);
      std::vector<std::string> found;
      for (const StateTensor& tensor : all.state()) found.push_back(tensor.name);
      for (const Parameter* parameter : all.parameters()) found.push_back(parameter->name);
      return found;
    };
    std::vector<HeadOfSet> heads = two_heads();
    heads[0].config.margin = {.type = MarginType::adaface, .scale = 8};
    heads[1].config.parallel = HeadParallel::replicated;
    CHECK(names(heads, shares()) ==
          std::vector<std::string>{"head.large.margin", "head.large.weight", "head.small.weight"});
    CHECK(names({heads[0]}, BatchShares()) == std::vector<std::string>{"head.margin", "head.weight"});
  });
}

TEST_CASE("an error of one of several heads names it, and the sample within its set") {
  run_ranks(test::ranks(1), [&](Rank& rank) {
    Construction construction{rank.device, rank.key, DType::f32};
    Heads all(two_heads(), shares(), {.momentum = 0}, dimension, rank, construction);
    std::vector<std::int64_t> wrong = labels();
    wrong[8] = 4;  // the third sample of the second set
    all.begin_step(0, wrong);
    CHECK_THROWS_WITH_AS(
        (void)all.forward_backward({.embedding = Tensor::full(rank.device, {batch, dimension}, DType::f32, 1),
                                    .labels = wrong,
                                    .samples =
                                        [](int) {
                                          return IndexRange{0, batch};
                                        },
                                    .global_batch = batch}),
        "head.small: sample 2 of the batch has label 4, expected one in [0, 4)", InputError);
  });
}

TEST_CASE("a batch is divided by position: every sample belongs to one set, and each set has its share") {
  const BatchShares three({1, 3, 2});
  CHECK(three.period() == 6);
  std::vector<std::int64_t> seen(3, 0);
  for (std::int64_t position = 0; position < 20; ++position) {
    const std::size_t set = three.set_of(position);
    CHECK(set == (position % 6 == 0 ? 0U : position % 6 < 4 ? 1U : 2U));
    for (std::size_t other = 0; other < 3; ++other) CHECK(three.before(other, position) == seen[other]);
    ++seen[set];
  }
  CHECK(three.within(1, {2, 8}) == IndexRange{1, 5});
  CHECK(three.places(1, {2, 8}) == std::vector<std::int64_t>{0, 1, 5, 6, 7});
}

}  // namespace heddle::test::heads_test
