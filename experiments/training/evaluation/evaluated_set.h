// The results of a set that was evaluated.
#pragma once

#include <optional>
#include <string>

#include "experiments/training/evaluation/protocol/identification.h"
#include "experiments/training/evaluation/protocol/roc.h"
#include "experiments/training/evaluation/protocol/verification.h"

namespace heddle {

/// The results of a set with pairs, of images or of templates.
struct VerifiedSet {
  Verification verification;
  std::string threshold_from;  // the set whose best threshold was used; empty: chosen on the other folds
  std::int64_t genuine = 0;    // number of pairs of one person
  std::int64_t impostors = 0;  // number of pairs of two people
  double best_threshold = 0;   // the best one for all pairs together
  Roc roc;
};

/// Has either `verified`, for a set with pairs, or `identified`, for a set with probes.
struct EvaluatedSet {
  std::string name;
  std::optional<VerifiedSet> verified{};
  std::optional<Identification> identified{};

  /// The number by which checkpoints are compared: the accuracy of verification, or the rate of identification at rank
  /// 1.
  double accuracy() const { return verified ? verified->verification.accuracy : identified.value().rates.front(); }
};

}  // namespace heddle
