#include "experiments/training/evaluation/protocol/roc.h"

#include <fstream>
#include <limits>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/files/source_folder.h"

namespace heddle::test::roc_test {

namespace {

/// A set of roc.txt: scikit-learn's input and its curves.
struct LearnedCurve {
  std::vector<ComparedPair> pairs;
  std::map<std::string, std::vector<RocPoint>> points;
  double area = 0;
};

double next_number(std::istream& in) {
  std::string word;
  in >> word;
  return std::stod(word);  // also -inf, which streams do not read
}

std::map<std::string, LearnedCurve> learned_curves() {
  std::ifstream file(test::source_folder() / "tests/experiments/training/evaluation/files/roc.txt");
  REQUIRE(file);
  std::map<std::string, LearnedCurve> curves;
  LearnedCurve* curve = nullptr;
  for (std::string word; file >> word;) {
    if (word == "set") {
      std::string name;
      std::getline(file, name);
      curve = &curves[name.substr(1)];
    } else if (word == "pair") {
      const double distance = next_number(file);
      curve->pairs.push_back({distance, next_number(file) == 1});
    } else if (word == "area") {
      curve->area = next_number(file);
    } else {
      const double threshold = next_number(file);
      const double far = next_number(file);
      curve->points[word].push_back({threshold, far, next_number(file)});
    }
  }
  return curves;
}

void check_equal(const std::vector<RocPoint>& ours, const std::vector<RocPoint>& theirs) {
  REQUIRE(ours.size() == theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    CHECK(ours[i].threshold == theirs[i].threshold);
    CHECK(ours[i].far == theirs[i].far);
    CHECK(ours[i].tar == theirs[i].tar);
  }
}

}  // namespace

TEST_CASE("ROC curves equal scikit-learn's roc_curve, with and without intermediate points, bit for bit") {
  const auto curves = learned_curves();
  CHECK(curves.size() == 5);
  for (const auto& [name, curve] : curves) {
    CAPTURE(name);
    const Roc all = roc_curve(curve.pairs, RocPoints::all);
    check_equal(all.points, curve.points.at("all"));
    const Roc corners = roc_curve(curve.pairs);
    check_equal(corners.points, curve.points.at("corners"));
    CHECK(all.area == close_to(curve.area).epsilon(1e-15));
    CHECK(corners.area == all.area);
  }
}

TEST_CASE("pairs without direction are accepted last, and a curve needs pairs of both kinds") {
  const double infinite = std::numeric_limits<double>::infinity();
  const Roc roc = roc_curve(std::vector<ComparedPair>{{infinite, true}, {0.5, true}, {1, false}}, RocPoints::all);
  REQUIRE(roc.points.size() == 4);
  CHECK(roc.points[2].far == 1);
  CHECK(roc.points[2].tar == 0.5);
  CHECK(roc.points[3].tar == 1);
  CHECK(roc.area == 0.5);
  CHECK_THROWS_WITH(roc_curve(std::vector<ComparedPair>{{1, true}}),
                    "evaluation: a ROC curve needs pairs of one person and pairs of two people");
}

}  // namespace heddle::test::roc_test
