#include "experiments/training/evaluation/protocol/roc.h"

#include <algorithm>
#include <limits>

#include "framework/error.h"

namespace heddle {

namespace {

/// The number of accepted pairs of each kind at one threshold.
struct Accepted {
  double threshold;
  std::int64_t impostors;
  std::int64_t genuine;
};

/// The counts at each distance that occurs, in ascending order. Pairs without direction, at infinity, come last.
std::vector<Accepted> accepted_up_to_each(std::vector<ComparedPair> pairs) {
  std::sort(pairs.begin(), pairs.end(),
            [](const ComparedPair& a, const ComparedPair& b) { return a.distance < b.distance; });
  std::vector<Accepted> counts;
  std::int64_t genuine = 0;
  std::int64_t impostors = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    (pairs[i].same ? genuine : impostors) += 1;
    if (i + 1 == pairs.size() || pairs[i + 1].distance != pairs[i].distance)
      counts.push_back({pairs[i].distance, impostors, genuine});
  }
  return counts;
}

bool is_corner(const Accepted& before, const Accepted& here, const Accepted& after) {
  return here.impostors - before.impostors != after.impostors - here.impostors ||
         here.genuine - before.genuine != after.genuine - here.genuine;
}

std::vector<Accepted> corners_of(const std::vector<Accepted>& counts) {
  std::vector<Accepted> corners;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (i == 0 || i + 1 == counts.size() || is_corner(counts[i - 1], counts[i], counts[i + 1]))
      corners.push_back(counts[i]);
  return corners;
}

}  // namespace

Roc roc_curve(std::span<const ComparedPair> pairs, RocPoints points) {
  std::vector<Accepted> counts = accepted_up_to_each({pairs.begin(), pairs.end()});
  if (counts.empty() || counts.back().genuine == 0 || counts.back().impostors == 0)
    fail("evaluation: a ROC curve needs pairs of one person and pairs of two people");
  const auto genuine = static_cast<double>(counts.back().genuine);
  const auto impostors = static_cast<double>(counts.back().impostors);
  Roc roc;
  // Twice the area, in units of one genuine and one impostor pair: exact up to 2^53.
  double doubled = 0;
  Accepted before{0, 0, 0};
  for (const Accepted& here : counts) {
    doubled +=
        static_cast<double>(here.impostors - before.impostors) * static_cast<double>(here.genuine + before.genuine);
    before = here;
  }
  roc.area = doubled / 2 / genuine / impostors;
  if (points == RocPoints::corners) counts = corners_of(counts);
  roc.points.push_back({-std::numeric_limits<double>::infinity(), 0, 0});
  for (const Accepted& here : counts)
    roc.points.push_back(
        {here.threshold, static_cast<double>(here.impostors) / impostors, static_cast<double>(here.genuine) / genuine});
  return roc;
}

}  // namespace heddle
