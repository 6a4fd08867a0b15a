// The receiver operating characteristic of compared pairs: the share of genuine pairs that are accepted against the
// share of impostors, at every threshold. Equals scikit-learn's roc_curve of the negative distances bit for bit.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "experiments/training/evaluation/protocol/compare.h"

namespace heddle {

/// The rates if pairs with a squared distance of at most `threshold` are accepted. The threshold of the first point is
/// minus infinity, which accepts none.
struct RocPoint {
  double threshold = 0;
  double far = 0;  // share of the impostors that are accepted
  double tar = 0;  // share of the genuine pairs that are accepted
};

enum class RocPoints {
  all,     // one for each distance that occurs
  corners  // without those on a straight line between their neighbours, as with drop_intermediate=True
};

struct Roc {
  std::vector<RocPoint> points{};  // from (0, 0) to (1, 1)
  double area = 0;                 // under the straight lines between all points
};

/// Error unless there are pairs of both kinds.
Roc roc_curve(std::span<const ComparedPair> pairs, RocPoints points = RocPoints::corners);

}  // namespace heddle
