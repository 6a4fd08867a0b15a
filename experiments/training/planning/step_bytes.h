// The bytes that a rank hands to the transport in one training step, by formula.
#pragma once

#include <cstdint>

#include "experiments/training/planning/run_plan.h"
#include "layers/planner/placement_report.h"

namespace heddle {

/// The bytes that rank 0 sends: the model's by what they carry, the head's, and those that cross from stage to stage.
struct StepBytes {
  PerPayload<std::int64_t> model{};
  std::int64_t head = 0;
  std::int64_t stages = 0;
  std::int64_t total() const;
};
/// The number of squares that the ranks add up for the gradients' norm: one for each parameter, and one for each head.
std::int64_t squares_of(const Experiment& experiment, const ModelSpec& model);
/// Whether the number of classes that ranks sample changes from step to step.
bool sample_varies(const Experiment& experiment);
/// Whether step_bytes holds: for training steps that compute everything once, including the loss, and that all send the
/// same number of bytes, in micro-batches of one size.
bool has_step_bytes(const Experiment& experiment, const ModelSpec& model);
/// The bytes of such a step.
StepBytes step_bytes(const Experiment& experiment, const RunPlan& plan);

}  // namespace heddle
