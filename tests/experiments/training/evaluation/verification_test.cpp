#include "experiments/training/evaluation/protocol/verification.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "framework/scalars/random.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test {

namespace {

std::vector<ComparedPair> drawn_pairs(std::size_t count, std::uint64_t seed) {
  std::vector<ComparedPair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    RandomStream draws({seed}, Purpose::evaluation_pairs, 0, i);
    const bool same = i % 2 == 0;
    pairs.push_back({draws.uniform() * (same ? 2.5 : 4), same});
  }
  return pairs;
}

/// The protocol without shortcuts: every threshold is counted anew on every fold.
struct PlainProtocol {
  double accuracy = 0;
  double deviation = 0;
  double threshold = 0;
};

double right_share(const std::vector<ComparedPair>& pairs, std::size_t begin, std::size_t end, double threshold,
                   bool inside) {
  double right = 0;
  double all = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if ((i >= begin && i < end) != inside) continue;
    ++all;
    right += (pairs[i].distance < threshold) == pairs[i].same ? 1 : 0;
  }
  return right / all;
}

PlainProtocol plain_protocol(const std::vector<ComparedPair>& pairs, std::size_t folds) {
  PlainProtocol result;
  std::vector<double> accuracies;
  for (std::size_t fold = 0, begin = 0; fold < folds; ++fold) {
    const std::size_t end = begin + pairs.size() / folds + (fold < pairs.size() % folds ? 1 : 0);
    double best = -1;
    double chosen = 0;
    for (int t = 0; t < 400; ++t)
      if (const double share = right_share(pairs, begin, end, 0.01 * t, false); share > best) {
        best = share;
        chosen = 0.01 * t;
      }
    accuracies.push_back(right_share(pairs, begin, end, chosen, true));
    result.threshold += chosen / static_cast<double>(folds);
    begin = end;
  }
  for (const double accuracy : accuracies) result.accuracy += accuracy / static_cast<double>(folds);
  for (const double accuracy : accuracies)
    result.deviation += (accuracy - result.accuracy) * (accuracy - result.accuracy) / static_cast<double>(folds);
  result.deviation = std::sqrt(result.deviation);
  return result;
}

}  // namespace

TEST_CASE("verification equals the protocol without shortcuts, also with uneven folds") {
  for (const std::size_t count : {40U, 600U, 607U}) {
    const std::vector<ComparedPair> pairs = drawn_pairs(count, count);
    const Verification result = verify(pairs);
    const PlainProtocol plain = plain_protocol(pairs, 10);
    CAPTURE(count);
    CHECK(result.folds == 10);
    CHECK(result.accuracy == close_to(plain.accuracy).epsilon(1e-14));
    CHECK(result.deviation == close_to(plain.deviation).epsilon(1e-12));
    CHECK(result.threshold == close_to(plain.threshold).epsilon(1e-14));
  }
}

TEST_CASE("distances on a threshold are refused by it, and accepted by the next") {
  for (int t = 0; t < 399; ++t) {
    const double on = 0.01 * t;
    // The lowest threshold that is right accepts what lies on t, and not what lies just above t + 1.
    const std::vector<ComparedPair> pairs{{on, true}, {on, true}, {0.01 * (t + 1), false}, {0.01 * (t + 1), false}};
    CHECK(best_threshold(pairs) == 0.01 * (t + 1));
  }
  CHECK(best_threshold(std::vector<ComparedPair>{{4, false}, {std::numeric_limits<double>::infinity(), true}}) == 0);
}

TEST_CASE("a list that has all genuine pairs first is mixed, and its folds have equal numbers of each kind") {
  std::vector<ComparedPair> alternate = drawn_pairs(200, 3);
  std::vector<ComparedPair> blocks = alternate;
  std::stable_partition(blocks.begin(), blocks.end(), [](const ComparedPair& pair) { return pair.same; });
  const Verification expected = verify(alternate);
  const Verification result = verify(blocks);
  CHECK(result.accuracy == expected.accuracy);
  CHECK(result.deviation == expected.deviation);
  CHECK(result.threshold == expected.threshold);
  // View 2 has ten sets, each with its genuine pairs first; the sets are the folds.
  std::vector<ComparedPair> sets = alternate;
  for (auto set = sets.begin(); set != sets.end(); set += 20)
    std::stable_partition(set, set + 20, [](const ComparedPair& pair) { return pair.same; });
  CHECK(verify(sets).accuracy == expected.accuracy);
}

TEST_CASE("a threshold chosen on other pairs is used for all pairs, and the deviation is that of the folds") {
  const std::vector<ComparedPair> other_pairs = drawn_pairs(2200, 5);
  const std::vector<ComparedPair> pairs = drawn_pairs(1003, 6);
  const double threshold = best_threshold(other_pairs);
  const Verification result = verify_at(threshold, pairs);
  CHECK(result.threshold == threshold);
  CHECK(result.accuracy == right_share(pairs, 0, pairs.size(), threshold, true));
  CHECK(result.folds == 10);
  CHECK(result.deviation > 0);
  CHECK(result.accuracy <= right_share(pairs, 0, pairs.size(), best_threshold(pairs), true));
  // One pair is enough.
  CHECK(verify_at(1.0, std::vector<ComparedPair>{{0.5, true}}).accuracy == 1);
}

TEST_CASE("true accept rates are given only where there are enough impostors") {
  std::vector<ComparedPair> pairs;
  for (int i = 0; i < 500; ++i) pairs.push_back({i / 1024.0, true});
  for (int i = 0; i < 999; ++i) pairs.push_back({(256 + i) / 1024.0, false});
  std::vector<TarAtFar> rates = tar_at_far(pairs);
  REQUIRE(rates.size() == 2);  // 999 impostors are too few for a rate of one in a thousand
  CHECK(rates[0].exponent == 1);
  CHECK(rates[0].tar == 355 / 500.0);  // 99 impostors pass: genuine pairs nearer than the hundredth
  CHECK(rates[1].exponent == 2);
  CHECK(rates[1].tar == 265 / 500.0);  // nine pass
  pairs.push_back({3, false});
  rates = tar_at_far(pairs);
  REQUIRE(rates.size() == 3);
  CHECK(rates[2].tar == 257 / 500.0);  // one passes
  CHECK(tar_at_far(pairs, 3).size() == 1);
  CHECK(tar_at_far(std::vector<ComparedPair>(20, {1, false})).empty());  // no genuine pair to accept
}

TEST_CASE("a pair of an image that is not there is an error") {
  const std::vector<float> values{1, 0, 0, 1};
  const UnitRows rows(values, 2);
  CHECK_THROWS_WITH(compare(rows, std::vector<Pair>{{0, 1, true}, {0, 2, true}}),
                    "evaluation: pair 1 compares images 0 and 2, but there are 2");
}

}  // namespace heddle::test
