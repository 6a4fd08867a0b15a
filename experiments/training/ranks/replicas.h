// The comparison of what several ranks hold alike: a bit that memory or a device has flipped in one of them.
#pragma once

#include <cstdint>

#include "experiments/training/trainer.h"

namespace heddle {

/// Compares checksums of the parameters, the optimizer's state and the running statistics that data-parallel and other
/// replicas hold alike after this step. RankFailed, on all ranks that hold the first tensor whose copies differ, names
/// it and the ranks. Each rank sends 8 bytes per tensor to each replica. A collective call of all ranks; nothing on
/// plan.
void check_replicas(Trainer& trainer, std::int64_t step);

}  // namespace heddle
