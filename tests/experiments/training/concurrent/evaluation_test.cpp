#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/training/evaluation/protocol/identification.h"
#include "experiments/training/evaluation/protocol/verification.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test::evaluation_test {

namespace {

using Floats = std::vector<float>;
using Labels = std::vector<std::int64_t>;

/// Unit vectors of the plane at these degrees.
Floats at_degrees(const std::vector<double>& degrees) {
  Floats values;
  for (const double d : degrees) {
    values.push_back(static_cast<float>(std::cos(d * 3.141592653589793 / 180)));
    values.push_back(static_cast<float>(std::sin(d * 3.141592653589793 / 180)));
  }
  return values;
}

}  // namespace

TEST_CASE("rank-1 is the share of correct nearest neighbours by angle, whatever the lengths") {
  Floats gallery = at_degrees({0, 90, 180});
  gallery[0] *= 100;
  const Labels gallery_labels = {5, 6, 7};
  const Floats test = at_degrees({10, 50, 100, 170});
  const Labels test_labels = {5, 5, 6, 7};
  CHECK(rank1({gallery, gallery_labels}, {test, test_labels}) == 0.75);
}

TEST_CASE("rank-1 resolves ties to the first row, and embeddings without direction match none") {
  const Floats gallery = {1, 0, 1, 0, 0, 0};
  const Labels gallery_labels = {1, 2, 3};
  const Floats test = {1, 0, 0, 0, std::numeric_limits<float>::quiet_NaN(), 1};
  CHECK(rank1({gallery, gallery_labels}, {test, Labels{1, 3, 1}}) == close_to(1.0 / 3));
  CHECK(rank1({gallery, gallery_labels}, {test, Labels{2, 3, 1}}) == 0);
  const Floats wide(9, 1.0F);
  CHECK_THROWS_WITH(rank1({gallery, gallery_labels}, {wide, Labels{1, 2, 3}}),
                    "evaluation: probes of dimension 3 cannot be compared with a gallery of dimension 2");
  CHECK_THROWS_WITH(rank1({gallery, Labels{1, 2, 3, 4}}, {test, Labels{1, 2, 3}}),
                    "evaluation: 6 numbers are not the embeddings of 4 images");
}

TEST_CASE("pairs are balanced, true to the labels, distinct and a function of the seed") {
  Labels labels;
  for (std::int64_t i = 0; i < 60; ++i) labels.push_back(i % 12);
  const std::vector<Pair> pairs = balanced_pairs(labels, 100, {1});
  REQUIRE(pairs.size() == 100);
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    CHECK(pairs[i].same == (i % 2 == 0));
    CHECK(pairs[i].same ==
          (labels[static_cast<std::size_t>(pairs[i].first)] == labels[static_cast<std::size_t>(pairs[i].second)]));
    CHECK(pairs[i].first < pairs[i].second);
    CHECK(seen.insert({pairs[i].first, pairs[i].second}).second);
  }
  CHECK(pairs == balanced_pairs(labels, 100, {1}));
  CHECK(pairs != balanced_pairs(labels, 100, {2}));
  // 12 people with 5 images each: 120 genuine pairs are all there are.
  CHECK(balanced_pairs(labels, 100'000, {1}).size() == 240);
  CHECK(balanced_pairs(Labels{1, 2, 3}, 10, {1}).empty());
  CHECK(balanced_pairs(Labels{1, 1}, 10, {1}).empty());
}

TEST_CASE("verification of embeddings that classify every pair correctly") {
  // Squared distance of equal directions: 0; of right angles: 2. Threshold 0.01 is the lowest that is always right.
  Floats values;
  Labels labels;
  for (std::int64_t i = 0; i < 40; ++i) {
    labels.push_back(i / 20);
    values.insert(values.end(), {i < 20 ? 3.0F : 0.0F, i < 20 ? 0.0F : 0.5F});
  }
  const auto result = verify_drawn({values, labels}, {}, {1});
  REQUIRE(result.has_value());
  CHECK(result->pairs == 760);  // 2 * 190 genuine pairs, as many of 400 impostors
  CHECK(result->folds == 10);
  CHECK(result->accuracy == 1);
  CHECK(result->deviation == 0);
  CHECK(result->threshold == close_to(0.01));
  CHECK(result->tar_at_far.empty());  // 400 impostor pairs are too few for a rate of one in a thousand
}

TEST_CASE("verification by hand: fold accuracies, their population deviation, the thresholds") {
  // Two people, two images each, on the circle at 0 and 60, 180 and 240 degrees. Genuine pairs lie at squared distance
  // 1; impostors at 4 (0-180, 60-240), 3 (0-240) and 3 (60-180): all right from the first threshold past 1.
  const Labels labels = {0, 0, 1, 1};
  const auto right = verify_drawn({at_degrees({0, 60, 180, 240}), labels}, {}, {1});
  REQUIRE(right.has_value());
  CHECK(right->pairs == 4);
  CHECK(right->folds == 2);
  CHECK(right->accuracy == 1);
  CHECK(right->threshold == close_to(1.0).epsilon(0.011));

  // Genuine pairs are at 180 degrees (4), impostors at 90 (2). Thresholds up to 2 refuse every pair, higher ones accept
  // the impostors. The best is 0, which refuses all: both folds are half right.
  const auto wrong = verify_drawn({at_degrees({0, 180, 90, 270}), labels}, {}, {1});
  REQUIRE(wrong.has_value());
  CHECK(wrong->accuracy == 0.5);
  CHECK(wrong->deviation == 0);
  CHECK(wrong->threshold == 0);

  // One of the two genuine pairs is at distance 0, one at 4; all impostors are at 2. The fold of the near pair gets
  // from the other fold a threshold that refuses all (0.5 right); the other gets threshold 0.01 (0.5 right).
  const auto mixed = verify_drawn({at_degrees({0, 0, 90, 270}), labels}, {}, {1});
  REQUIRE(mixed.has_value());
  CHECK(mixed->accuracy == 0.5);
  CHECK(mixed->threshold == close_to(0.005));
}

TEST_CASE("the deviation of fold accuracies is that of the population") {
  // Three people in one direction and one pair apart: fold accuracies differ. Here they are recomputed from the pairs.
  const Labels labels = {0, 0, 1, 1, 2, 2};
  const std::vector<double> degrees = {0, 1, 90, 91, 180, 270};
  const auto result = verify_drawn({at_degrees(degrees), labels}, {.folds = 3}, {4});
  REQUIRE(result.has_value());
  CHECK(result->pairs == 6);
  // A fold is one genuine and one impostor pair. The folds of people 0 and 1 get a small threshold and are right; that
  // of person 2 gets it too, misses its genuine pair, and is half right: mean 5/6, deviation sqrt(2)/6.
  CHECK(result->accuracy == close_to(5.0 / 6));
  CHECK(result->deviation == close_to(std::sqrt(2.0) / 6));
}

TEST_CASE("too few pairs give no verification") {
  CHECK(!verify_drawn({at_degrees({0, 1, 90}), Labels{0, 0, 1}}, {}, {1}).has_value());
  CHECK(!verify_drawn({at_degrees({0, 90}), Labels{0, 1}}, {}, {1}).has_value());
}

TEST_CASE("true accepts are nearer than the first impostor that must be refused") {
  // 100 people with two images: 100 genuine pairs, 19,800 impostors. Image 2i is unit vector i; its partner leans away
  // by 1, 2 ... 100 steps towards an axis of its own, so impostors are at distance 2 or a little less.
  constexpr int people = 100;
  Floats values(2 * people * 2 * people);
  Labels labels;
  for (int i = 0; i < 2 * people; ++i) {
    labels.push_back(i / 2);
    float* const row = &values[static_cast<std::size_t>(i * 2 * people)];
    row[i / 2] = 1;
    if (i % 2 == 1) row[people + i / 2] = 1;
  }
  auto result = verify_drawn({values, labels}, {}, {1});
  REQUIRE(result.has_value());
  REQUIRE(result->tar_at_far.size() == 2);  // 10^-3 and 10^-4
  CHECK(result->tar_at_far[0].exponent == 3);
  CHECK(result->tar_at_far[0].tar == 1);
  CHECK(result->tar_at_far[1].exponent == 4);

  // Ten people share one direction: 10 * 9 / 2 * 4 = 180 impostor pairs at distance 0 or as near as genuine ones. 19
  // may pass at 10^-3, so the refused ones begin at distance 0 and nothing is nearer.
  for (int i = 0; i < 20; ++i) {
    float* const row = &values[static_cast<std::size_t>(i * 2 * people)];
    std::fill_n(row, 2 * people, 0.0F);
    row[0] = 1;
  }
  result = verify_drawn({values, labels}, {}, {1});
  CHECK(result->tar_at_far[0].tar == 0);
  // With 5 of them, 40 such pairs: still more than 19. With 3: 12 pairs, so all genuine pairs pass.
  for (int i = 6; i < 20; ++i) {
    float* const row = &values[static_cast<std::size_t>(i * 2 * people)];
    row[0] = 0;
    row[i / 2] = 1;
  }
  result = verify_drawn({values, labels}, {}, {1});
  CHECK(result->tar_at_far[0].tar == 1);
  CHECK(result->tar_at_far[1].tar == 0);  // 1 of 19,800 may pass, 12 are at distance 0
}

}  // namespace heddle::test::evaluation_test
