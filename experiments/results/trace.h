// trace.json in Chrome's trace format, which ui.perfetto.dev and chrome://tracing open. Each rank is a process. It has
// one track for compute, and as many tracks for communication and for sends as overlap. An arrow leads from each send
// to its receive.
#pragma once

#include "experiments/training/measurements/result.h"
#include "framework/files/atomic_file.h"

namespace heddle {

/// Writes the spans of all variants. The variants follow one another on the time axis, whether or not their times
/// already do.
void write_trace(AtomicFile& file, const RunResult& run);

}  // namespace heddle
