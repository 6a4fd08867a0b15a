// What the embeddings of a checkpoint make of a set.
#pragma once

#include <optional>
#include <string>

#include "experiments/training/evaluation/protocol/identification.h"
#include "experiments/training/evaluation/protocol/roc.h"
#include "experiments/training/evaluation/protocol/verification.h"

namespace heddle {

/// Pairs, of images or of templates.
struct VerifiedSet {
  Verification verification;
  std::string threshold_from;  // the set whose best threshold judged this one; empty: its own folds'
  std::int64_t genuine = 0;    // pairs of one person
  std::int64_t impostors = 0;  // pairs of two
  double best_threshold = 0;   // for all pairs
  Roc roc;
};

/// Either its pairs are verified, or its probes are identified.
struct EvaluatedSet {
  std::string name;
  std::optional<VerifiedSet> verified{};
  std::optional<Identification> identified{};

  /// By which checkpoints are compared: the accuracy, or the share of probes that are identified at rank 1.
  double accuracy() const { return verified ? verified->verification.accuracy : identified.value().rates.front(); }
};

}  // namespace heddle
