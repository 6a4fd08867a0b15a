// trace.json in Chrome's trace format: a process a rank, a track for compute, one for communication and one for sends,
// with an arrow from each send to its receive. Opens in ui.perfetto.dev and chrome://tracing.
#pragma once

#include "experiments/training/result.h"
#include "framework/files/atomic_file.h"

namespace heddle {

/// Variants lie one after another on the time axis, whether or not their times already do.
void write_trace(AtomicFile& file, const RunResult& run);

}  // namespace heddle
