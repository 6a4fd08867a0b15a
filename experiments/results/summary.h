// The texts of a results folder, each a pure function of the measurements. A value that was not measured is null, or
// its key is left out.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/training/measurements/result.h"

namespace heddle {

/// The size of the largest summary.json that is read.
inline constexpr std::uint64_t max_summary_bytes = std::uint64_t{1} << 30;

/// summary.json, also what `--json` prints. Its keys are stable; ends with a newline.
std::string summary_json(const RunResult& run);
/// `{"name", "checkpoint", "steps", "sets": [...]}`, and "weights" if they are averages: the sets of a variant as they
/// are written in its evaluation of summary.json. Ends with a newline.
std::string sets_json(const VariantResult& variant, const std::string& checkpoint, std::int64_t steps);
/// `variant,rank,category,bytes`: six lines per rank, at the moment of its largest total.
std::string memory_csv(const RunResult& run);
/// `variant,set,threshold,far,tar`: the curves of all sets that were evaluated, whose thresholds are squared distances
/// in ascending order; empty if there are none.
std::string roc_csv(const RunResult& run);
/// The schedule in PyTorch's notation, one row per rank along pp, `0F0,0B0,0F1,0B1`. Without stages that is one row:
/// stage 0 is the whole model, and its micro-batches run one after another.
std::string schedule_csv(const VariantResult& variant);

}  // namespace heddle
