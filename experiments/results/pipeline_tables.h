// The tables of a run's pipelines. A table is empty if the run has no figures for it.
#pragma once

#include <string>

#include "experiments/training/measurements/result.h"

namespace heddle {

/// The speedup over naive, and its share of the schedule's ideal.
std::string pipelines_table(const RunResult& run);

/// The activations that each rank keeps for backward: by its schedule, and at its peak memory. The bytes per sample
/// show which schedules keep the same for each sample and differ in the number of samples only; with recomputation they
/// would mean nothing.
std::string kept_table(const RunResult& run);

/// The most bytes of a rank's activations in the host's memory, of the variants that offload.
std::string offloaded_table(const RunResult& run);

/// The output of each rank in a forward pass, and how busy it is.
std::string outputs_table(const RunResult& run);

/// `gpipe: predicted 1.23 s, measured 1.25 s (1.6 % apart)`, one line per pipeline.
std::string predictions_text(const RunResult& run);

}  // namespace heddle
