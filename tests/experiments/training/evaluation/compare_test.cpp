// Comparisons of many pairs, against the distance of each pair by itself.
#include "experiments/training/evaluation/protocol/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "framework/scalars/random.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test::compare_test {

namespace {

std::vector<float> drawn_values(std::size_t count) {
  std::vector<float> values(count);
  RandomStream draws({3}, Purpose::test, 0, count);
  for (float& value : values) value = static_cast<float>(draws.normal());
  return values;
}

std::vector<Pair> drawn_pairs(std::size_t count, std::size_t rows) {
  std::vector<Pair> pairs(count);
  RandomStream draws({4}, Purpose::test, rows, count);
  const auto draw = [&] { return static_cast<std::int64_t>(draws.below(rows)); };
  for (Pair& pair : pairs) pair = {draw(), draw(), draws.below(2) == 0};
  return pairs;
}

/// The sum of the squared differences of the rows' values.
double plain_distance(const UnitRows& rows, const Pair& pair) {
  double sum = 0;
  for (std::size_t k = 0; k < rows.dimension(); ++k) {
    const double difference = static_cast<double>(rows.row(pair.first)[k]) - rows.row(pair.second)[k];
    sum += difference * difference;
  }
  return sum;
}

void check_equal(const std::vector<ComparedPair>& a, const std::vector<ComparedPair>& b) {
  REQUIRE(a.size() == b.size());
  std::size_t differing = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    differing += a[i].distance == b[i].distance && a[i].same == b[i].same ? 0U : 1U;
  CHECK(differing == 0);
}

}  // namespace

TEST_CASE("pairs compared by matrix products have the bits of pairs compared one by one, in the order of the list") {
  for (const std::size_t rows : {1U, 7U, 256U, 257U, 600U})   // below, at and above a block
    for (const std::size_t features : {1U, 3U, 64U, 129U}) {  // also such that vectors do not divide
      CAPTURE(rows);
      CAPTURE(features);
      const UnitRows unit(drawn_values(rows * features), rows);
      const std::vector<Pair> pairs = drawn_pairs(5000, rows);
      const std::vector<ComparedPair> alone = compare(unit, pairs, ComparisonWay::one_by_one);
      check_equal(compare(unit, pairs, ComparisonWay::products), alone);
      check_equal(compare(unit, pairs), alone);
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        REQUIRE(std::abs(alone[i].distance - plain_distance(unit, pairs[i])) <= 1e-14);
        REQUIRE(alone[i].same == pairs[i].same);
      }
    }
}

TEST_CASE("crowded blocks are multiplied, sparse ones are not, and both give the same bits") {
  // Nearly all pairs of the first 256 rows, and a few of the others.
  const UnitRows unit(drawn_values(std::size_t{700} * 40), 700);
  std::vector<Pair> pairs = drawn_pairs(60'000, 256);
  const std::vector<Pair> sparse = drawn_pairs(3000, 700);
  pairs.insert(pairs.end(), sparse.begin(), sparse.end());
  check_equal(compare(unit, pairs), compare(unit, pairs, ComparisonWay::one_by_one));
}

TEST_CASE("a row is at the distance 0 from itself, and opposite rows are at the distance 4") {
  const UnitRows unit(std::vector<float>{3, 4, -3, -4, 0.5F, 0}, 3);
  for (const ComparisonWay way : {ComparisonWay::one_by_one, ComparisonWay::products}) {
    const std::vector<ComparedPair> compared =
        compare(unit, std::vector<Pair>{{0, 0, true}, {0, 1, false}, {0, 2, false}}, way);
    CHECK(compared[0].distance == 0);
    CHECK(compared[1].distance == close_to(4).epsilon(1e-7));
    CHECK(compared[2].distance == close_to(2 - 2 * 0.6).epsilon(1e-7));
  }
}

TEST_CASE("a row without direction is infinitely far from every row, and changes no other distance of its block") {
  constexpr float none = std::numeric_limits<float>::quiet_NaN();
  const UnitRows unit(std::vector<float>{1, 0, 0, 0, 0, 1, none, 1}, 4);
  const std::vector<Pair> pairs{{0, 1, true}, {1, 1, true}, {3, 2, false}, {0, 2, false}};
  for (const ComparisonWay way : {ComparisonWay::one_by_one, ComparisonWay::products}) {
    const std::vector<ComparedPair> compared = compare(unit, pairs, way);
    for (std::size_t i = 0; i < 3; ++i) CHECK(compared[i].distance == std::numeric_limits<double>::infinity());
    CHECK(compared[3].distance == 2);
  }
}

TEST_CASE("dot products of unit rows are the same in any order of the sum") {
  constexpr std::size_t features = 512;
  const UnitRows unit(drawn_values(2 * features), 2);
  double forward = 0;
  double backward = 0;
  for (std::size_t k = 0; k < features; ++k) {
    forward += static_cast<double>(unit.row(0)[k]) * unit.row(1)[k];
    const std::size_t last = features - 1 - k;
    backward += static_cast<double>(unit.row(0)[last]) * unit.row(1)[last];
  }
  CHECK(forward == backward);
}

}  // namespace heddle::test::compare_test
