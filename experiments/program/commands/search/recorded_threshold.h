// The threshold that the evaluation of a checkpoint has found.
#pragma once

#include <optional>

#include "experiments/program/commands/search/found_people.h"
#include "experiments/training/checkpoints/find_checkpoint.h"

namespace heddle {

/// The threshold of verification in the summary.json of the results folder that the checkpoint lies in, as a
/// similarity: that of the first set of pairs, or else of the test images. Nothing if there is none for the
/// checkpoint's step.
std::optional<SearchThreshold> recorded_threshold(const FoundCheckpoint& checkpoint);

}  // namespace heddle
