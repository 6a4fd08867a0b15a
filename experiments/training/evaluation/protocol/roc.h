// The receiver operating characteristic of compared pairs: the share of genuine pairs that are accepted against the
// share of impostors, at every threshold. Equal to scikit-learn's roc_curve of the negative distances, digit by digit.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "experiments/training/evaluation/protocol/unit_rows.h"

namespace heddle {

/// The rates when pairs are accepted whose squared distance is at most `threshold`. That of the first point is minus
/// infinity: it accepts none.
struct RocPoint {
  double threshold = 0;
  double far = 0;  // accepted share of the impostors
  double tar = 0;  // accepted share of the genuine pairs
};

enum class RocPoints {
  all,     // one for each distance that occurs
  corners  // without those on a straight line between their neighbours, as drop_intermediate = True gives
};

struct Roc {
  std::vector<RocPoint> points{};  // from (0, 0) to (1, 1)
  double area = 0;                 // under the curve, of straight lines between all points
};

/// Error unless there are pairs of both kinds.
Roc roc_curve(std::span<const ComparedPair> pairs, RocPoints points = RocPoints::corners);

}  // namespace heddle
