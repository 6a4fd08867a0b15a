// trace.json in Chrome's trace format: one process per rank, in it one track for compute and as many for communication
// and for sends as overlap, with an arrow from each send to its receive. Opens in ui.perfetto.dev and chrome://tracing.
#pragma once

#include "experiments/training/measurements/result.h"
#include "framework/files/atomic_file.h"

namespace heddle {

/// The variants follow one another on the time axis, whether or not their times already do.
void write_trace(AtomicFile& file, const RunResult& run);

}  // namespace heddle
