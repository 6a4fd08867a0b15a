// The pass that places the parts of a loss over all ranks (LossForm::in_two_exchanges and in_one_exchange, passes.h).
#pragma once

#include "parallel/pipeline/schedule.h"

namespace heddle {

/// Adds a J, an S and a T of each micro-batch to all ranks, in the same order on all of them.
Schedule with_loss_in_parts(const Schedule& schedule);

}  // namespace heddle
