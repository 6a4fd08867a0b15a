// Identification: whose image is this? Pure functions, on the calling thread's OpenMP team.
#pragma once

#include "experiments/training/evaluation/protocol/verification.h"

namespace heddle {

/// The share of test rows whose nearest row of the gallery, by cosine, has their label. Among equally near rows the
/// first one counts. A row without direction is nobody's.
double rank1(const Embeddings& gallery, const Embeddings& test);

}  // namespace heddle
