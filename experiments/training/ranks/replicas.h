// The comparison of state that several ranks hold, which finds a bit that memory or a device has flipped in one of
// them.
#pragma once

#include <cstdint>

#include "experiments/training/trainer.h"

namespace heddle {

/// Compares checksums of the parameters, the optimizer's state and the running statistics of which data-parallel and
/// other replicas hold copies, after this step. If copies differ, all ranks that hold the first such tensor raise a
/// RankFailed, which names it and the ranks. Each rank sends 8 bytes per tensor to each replica. A collective call of
/// all ranks, which does nothing on plan.
void check_replicas(Trainer& trainer, std::int64_t step);

}  // namespace heddle
