// What the embeddings of a checkpoint make of a set of pairs.
#pragma once

#include <string>

#include "experiments/training/evaluation/protocol/roc.h"
#include "experiments/training/evaluation/protocol/verification.h"

namespace heddle {

struct EvaluatedSet {
  std::string name;
  std::string threshold_from;  // the set whose best threshold judged this one; empty: its own folds'
  Verification verification;
  std::int64_t genuine = 0;    // pairs of one person
  std::int64_t impostors = 0;  // pairs of two
  double best_threshold = 0;   // for all pairs
  Roc roc;
};

}  // namespace heddle
