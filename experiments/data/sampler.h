// The samples that a step trains on. Epochs are seeded shuffles laid end to end, and a step's global batch is its slice
// of them. It depends on the step alone, so that neither resuming nor the number of ranks changes it.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/scalars/random.h"

namespace heddle {

/// The indices (0 .. size-1) of the global batch of `step`, counted from 0. No sample is dropped: a batch that an epoch
/// does not fill goes on into the next epoch's shuffle.
std::vector<std::int64_t> batch_indices(std::int64_t size, std::int64_t batch, std::int64_t step, RandomKey key);

/// The element of `batch_indices` at `position`.
std::int64_t batch_index(std::int64_t size, std::int64_t batch, std::int64_t step, std::int64_t position,
                         RandomKey key);

}  // namespace heddle
