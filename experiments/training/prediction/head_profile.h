// The computing costs of one rank's part of the heads, measured without the backbone: on one rank, with the classes of
// one rank and the samples of all ranks that share them. What reads the weights takes as long for few samples as for
// many, so that a rank with all classes and its own samples only would not show them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "experiments/training/planning/planned_head.h"

namespace heddle {

/// Seconds of a rank of speed 1 for one micro-batch, of all heads together.
struct HeadProfile {
  double loss = 0;
  double weight = 0;  // the gradient of the classes and their update
  double norm = 0;    // the gradient once more, where gradients are clipped
};

/// Heads that were measured already on plan, keyed by everything that they depend on.
using HeadProfiles = std::map<std::string, HeadProfile>;

/// `parts`: one for each head, whose embeddings have `dimension` numbers. On plan, what is in `known` is not measured
/// again.
HeadProfile profile_heads(const Experiment& experiment, std::int64_t dimension, std::span<const HeadPart> parts,
                          HeadProfiles& known);

}  // namespace heddle
