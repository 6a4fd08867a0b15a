// The part of the results table that shows how good embeddings are.
#pragma once

#include <string>

#include "experiments/training/measurements/result.h"

namespace heddle {

/// A share as a percentage: `97.50`.
std::string percent(double share);
/// Identification and verification on the data's test images; empty if no variant measured them.
std::string accuracy_table(const RunResult& run);
/// Verification on the evaluation's sets of pairs; empty if no variant has any.
std::string sets_table(const RunResult& run);
/// Identification on the evaluation's sets of probes; empty if no variant has any.
std::string identification_table(const RunResult& run);

}  // namespace heddle
